"""Small code: long expansions are functions, each once, that say what the expansions say where they
stand.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac_cpu import BACKEND
from xlac_cpu.emit import outlined
from xlac_cpu.emit.module import emit
from xlac_cpu.machine import Machine
from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.primitives import cases
from xlac_sdk.conformance.run import check
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.outline import LONG
from xlac_sdk.target import Request, Target

SPECS = Path(__file__).parents[2] / "specs"


def small() -> Target:
    return BACKEND.target(Request(size=True))


CASES = [case for case in cases(small()) if case.group in {primitive.value for primitive in LONG}]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.sampled(16)
def test_a_function_conforms(case: ConformanceCase) -> None:
    wrong = [f"{o.case}: {o.detail}" for o in check(case, BACKEND, small()) if o.status != "passed"]
    assert not wrong, "\n".join(wrong)


def test_each_function_is_there_once() -> None:
    target = small()
    model = specialized(load(SPECS / "lstm_3x60.yaml"))
    program = lower(model, target).program
    text = "\n".join(emit(program, target, Machine.of(target)).values())
    defined = re.findall(r"^define .*@(\w+\.v?\d*f32)\(", text, re.MULTILINE)
    assert {name.partition(".")[0] for name in defined} == {"exp", "sigmoid", "tanh"}
    assert len(set(defined)) == len(defined) <= 6, (
        "once for vectors, and where those have no masks once for scalars"
    )
    assert text.count("@sigmoid.") >= 3, "kernels call it wherever they need it"
    fast = BACKEND.target(Request())
    x = np.random.default_rng(0).standard_normal((1, 32, 60)).astype(np.float32)
    ours = executable(lower(model, target), BACKEND)(x)
    right = executable(lower(model, fast), BACKEND)(x)
    for name, want in right.items():
        np.testing.assert_allclose(ours[name], want, rtol=1e-5, atol=1e-6)


def test_only_what_the_machine_lacks_is_a_function() -> None:
    target = small()
    assert (Primitive.EXP, DType.F32) in outlined.missing(target)
    assert (Primitive.SQRT, DType.F32) not in outlined.missing(target)
    assert all(outlined.calls_for(target).spells(p, d) for p, d in outlined.missing(target))
