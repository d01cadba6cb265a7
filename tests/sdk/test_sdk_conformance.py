"""The kit itself, and the backends of this repository under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from xlac_sdk.backend import Executable
from xlac_sdk.conformance import Case, Outcome, Report, Tolerance, cases, check, run
from xlac_sdk.conformance.case import agrees
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Request, Target

CHOSEN = [(name, case) for name in ("cpu", "c") for case in cases(find(name).target(Request()))]


@pytest.mark.parametrize(("name", "case"), CHOSEN, ids=[f"{n}-{c.name}" for n, c in CHOSEN])
@pytest.mark.sampled(64)
def test_a_backend_conforms(name: str, case: Case) -> None:
    backend = find(name)
    wrong = [
        f"{o.case}: {o.detail}"
        for o in check(case, backend, backend.target(Request()))
        if o.status != "passed"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_interpreter_agrees_with_itself_on_vectors_of_any_width() -> None:
    """Scalar and vector text of the same kernels are written by different code."""
    for only in ("steps", "vectors", "folds", "shr"):
        assert run(find("reference"), only=only).ok


def test_a_program_runs_when_the_folder_of_its_build_is_gone() -> None:
    """A backend that reads its build when it runs fails, as caches and `xlac.compile` delete it."""

    class Late(type(find("reference"))):  # type: ignore[misc]
        def build(self, sources: Mapping[str, str], folder: Path) -> Path:
            (folder / "late").write_text("kept", encoding="utf-8")
            return folder / "late"

        def load(self, artifact: Path, program: Program, target: Target) -> Executable:
            assert artifact.exists()
            made: Executable = super().load(artifact, program, target)

            class Reads:
                def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
                    artifact.read_text(encoding="utf-8")
                    made.run(inputs, outputs)

            return cast("Executable", Reads())

    (case,) = (one for one in cases(Target("any")) if one.name == "add scalar")
    (outcome,) = check(case, Late(), Late().target(Request()))
    assert outcome.status == "failed" and "FileNotFoundError" in outcome.detail


def test_every_primitive_has_a_case() -> None:
    groups = {case.group for case in cases(Target("any", vector_bytes=32))}
    assert {p.value for p in Primitive} <= groups


def test_agreement() -> None:
    one = np.float32([1, 1, np.nan, 0.0, np.inf, np.nan, -1])
    two = np.float32([1, np.nextafter(np.float32(1), np.float32(2)), np.nan, -0.0, np.inf, 1, 1])
    assert agrees(one, two, Tolerance()).tolist() == [True, False, True, False, True, False, False]
    assert agrees(one, two, Tolerance(1)).tolist() == [True, True, True, True, True, False, False]


def test_the_report_counts_and_escapes() -> None:
    outcomes = (
        Outcome("add", "add scalar: f32", "passed"),
        Outcome("add", "add <b>", "failed", "got <script>"),
    )
    report = Report(
        "demo",
        Target("demo", claims=frozenset({"softmax"})),
        outcomes,
        {"softmax": (Outcome("softmax", "s", "passed"),)},
    )
    assert not report.ok
    assert report.totals()["claimed operations"] == 1 and report.totals()["failed"] == 1
    page = report.html()
    assert "<script>" not in page and "got &lt;script&gt;" in page and "http" not in page
    assert "FAILED add <b>" in report.text()


def test_cases_left_out_for_a_type_are_counted() -> None:
    """What a target without f64 is not tested on is in the report, by primitive, and no failure."""

    class Narrow(type(find("reference"))):  # type: ignore[misc]
        def target(self, request: Request) -> Target:
            return replace(
                super().target(request), dtypes=frozenset(DType) - {DType.F64, DType.BF16}
            )

    found, whole = run(Narrow(), only="sqrt"), run(find("reference"), only="sqrt")
    assert found.ok
    assert [(r.name, r.left_out, r.status) for r in found.primitives()] == [
        ("sqrt", 2, "passed"),
        ("rsqrt", 2, "passed"),
    ]
    left = [(o.case, o.detail) for o in found.outcomes if o.status == "left out"]
    assert left == [
        (f"{name} {width}: f64", "the target has no f64")
        for name in ("sqrt", "rsqrt")
        for width in ("scalar", "vector")
    ]
    assert whole.totals()["left out for a type"] == 0
    assert whole.totals()["passed"] == found.totals()["passed"] + 4
