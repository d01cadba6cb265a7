"""Long expansions as functions that kernels of a port call."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from slate_port import SlateBackend

from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.kernel_ir.primitives import MANDATORY, Primitive
from xlac_sdk.lowering import outline
from xlac_sdk.lowering.grids import grids
from xlac_sdk.target import Request, Target

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")


class PlainBackend(SlateBackend):
    """The slate port without a library of mathematics: every expansion is the SDK's."""

    name = "plain"

    def target(self, request: Request) -> Target:
        made = super().target(request)
        return replace(made, primitives=MANDATORY, lacks=frozenset(), functions=True)


TARGET = PlainBackend().target(Request())
WORDS = tuple(f"{primitive.value} " for primitive in outline.LONG)
CASES = [case for case in cases(TARGET) if any(word in f"{case.name} " for word in WORDS)]


@needs_cc
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.sampled(20)
def test_a_function_is_what_it_expands(
    case: ConformanceCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every use is a call here."""
    monkeypatch.setattr(outline, "FEW", 0)
    outcomes = check(case, PlainBackend(), TARGET)
    wrong = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, "\n".join(wrong)


def powers(folder: Path, count: int) -> Path:
    """A spec of so many powers in one kernel."""
    terms = " + ".join(f"(x + {k}) ** y" for k in range(count))
    text = f'xlac: 1\nmodel: m\ninputs: {{x: "f32[8]", y: "f32[8]"}}\noutputs: {{z: {terms}}}\n'
    (folder / "m.yaml").write_text(text)
    return folder / "m.yaml"


@needs_cc
def test_what_a_kernel_uses_often_is_a_function(tmp_path: Path) -> None:
    lengths = []
    for count in (outline.FEW // 2, outline.FEW + 1, 2 * outline.FEW):
        lowered, backend = lower(load(powers(tmp_path, count)), TARGET), PlainBackend()
        (text,) = backend.emit(lowered.program, TARGET).values()
        assert ("float pow_f32(float" in text) == (count > outline.FEW)
        lengths.append(len(text))
        x, y = np.linspace(0.5, 2, 8, dtype="f4"), np.linspace(-3, 3, 8, dtype="f4")
        made = executable(lowered, backend)(x=x, y=y)
        want = sum((x.astype("f8") + k) ** y for k in range(count))
        np.testing.assert_allclose(made, want, 1e-6)
    assert lengths[1] < lengths[0] * 0.7 and lengths[2] < 1.5 * lengths[1]


NAMES = {"pow_f32", "pow_f32x4"}


def test_only_a_target_with_functions_has_calls(tmp_path: Path) -> None:
    program = lower(load(powers(tmp_path, 12)), TARGET).program
    for functions in (False, True):
        (kernel,) = grids(program, replace(TARGET, functions=functions)).kernels
        assert {f.code.name for f in kernel.functions} == (NAMES if functions else set())
        assert any(p is Primitive.POW for p, *_ in outline.long_primitives(kernel)) == functions
