"""The host's side of programs as C, on a device that a stranger could have ported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_programs import HostProgram
from hosted_slate import DRIVER, HostedSlate

import xlac
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.dtypes import Array
from xlac_sdk.host.device_c.program import host_program
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[3] / "specs"
BACKEND = HostedSlate()
CASES = list(cases(BACKEND.target(Request())))


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.sampled(64)
def test_programs_run_from_c(case: ConformanceCase) -> None:
    outcomes = check(case, BACKEND, BACKEND.target(Request()))
    wrong = [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, "\n".join(wrong)


def hosted(spec: str) -> HostProgram:
    """A shipped spec on the slate, called from C."""
    target = BACKEND.target(Request())
    program = lower(load(SPECS / f"{spec}.yaml"), target).program
    ((_, text),) = BACKEND.emit(program, target).items()
    files = host_program(grids(program, target), text, DRIVER, "slate")
    return HostProgram(files, program, ["-ldl"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="the system's C compiler")
def test_a_model_with_state_is_reset_and_stopped_from_c() -> None:
    ours = hosted("lstm_stream")
    program = ours.program
    draw = np.random.default_rng(0)
    inputs = {
        s.name: draw.random(s.extents({"B": 2})).astype(s.dtype.numpy) for s in program.inputs
    }
    theirs = xlac.compile(str(SPECS / "lstm_stream.yaml"), "cpu")

    def called(rows: int = 2) -> dict[str, Array]:
        sizes = {"B": rows}
        outputs = {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.outputs}
        given = inputs
        if rows != 2:
            given = {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.inputs}
        ours.run(given, outputs)
        return outputs

    for _ in range(3):
        for made, wanted in zip(called().values(), each(theirs(**inputs)), strict=True):
            np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    ours.library[f"{ours.name}_stop"](ours.context)
    with pytest.raises(AssertionError, match="the run was stopped"):
        called()
    for made, wanted in zip(called().values(), each(theirs(**inputs)), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="values of a run of other sizes"):
        called(3)
    ours.reset()
    called(3)
    ours.reset()
    theirs.reset()
    for made, wanted in zip(called().values(), each(theirs(**inputs)), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    ours.close()


def each(results: Any) -> tuple[Array, ...]:
    """The results of a call, one or several."""
    return results if isinstance(results, tuple) else (results,)


def test_a_stop_before_the_state_changes_leaves_it_usable() -> None:
    """The mark of a half-changed state comes after the last look for a stop request before it."""
    target = BACKEND.target(Request())
    program = lower(load(SPECS / "lstm_stream.yaml"), target).program
    text = host_program(grids(program, target), "", DRIVER, "slate")["lstm_stream.c"]
    steps = text[text.index("run_steps(") : text.index("run_all(")]
    before, mark, after = steps.partition("context->torn = 1;")
    assert mark and "torn" not in after
    assert before.rstrip().endswith("return RUN_STOPPED;")
    assert not after.lstrip().startswith("if (context->stop")


def test_what_the_host_does_not_do_is_refused() -> None:
    program = CASES[0].program
    reports = replace(program, facts={"checks": '[["nan", "x is NaN", "x", null, [2], "f32"]]'})
    with pytest.raises(UnsupportedError, match="reads no record that is an output"):
        host_program(reports, "", DRIVER, "slate")
    with pytest.raises(UnsupportedError, match="includes no file"):
        host_program(program, "", DRIVER, "slate", WeightsOrigin.INCBIN)
