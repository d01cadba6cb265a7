"""`xlac backend test NAME --ops SPEC`: kernels compared with what their operations mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from custom_ops import GATED, SPEC, written

from xlac.cli import status
from xlac.debug.kernel_cases import kernel_outcomes
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

TARGETS = pytest.mark.parametrize("target", ["c", "cpu"])
# only a size that the spec's graph never has shows it
WRONG = GATED.replace("(float)slope;", "(float)slope + (N == 65);")
OTHERS = """\
  plain:
    inputs: {a: "f32[N]"}
    outputs: {y: "f32[N]"}
    expr: {y: a + 1}
  narrow:
    inputs: {a: "f32[N, 2 * N]"}
    outputs: {y: "f32[N, 2 * N]"}
    params: {by: null}
    expr: {y: a * $by}
    kernels: {TARGET: gated.c}
graph:"""


@TARGETS
def test_a_right_kernel_passes_at_many_sizes(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, target)
    assert status(["backend", "test", target, "--ops", str(file)]) == 0
    assert "5 passed, 0 failed" in " ".join(capsys.readouterr().out.split())


@TARGETS
def test_a_kernel_that_is_wrong_at_other_sizes_is_found(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, target, WRONG)
    assert status(["backend", "test", target, "--ops", str(file)]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "gated(f32[4, 3, 65], f32[65])" in text and "XL3034" in text and "own.yaml:5:3" in text
    assert "4 passed, 1 failed" in text


def test_operations_without_a_kernel_are_not_tested_and_what_needs_an_attribute_is_told(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "c", spec=SPEC.replace("graph:", OTHERS))
    found = {name: [*outcomes] for name, outcomes in kernel_outcomes(file, find("c"), Request())}
    assert [*found] == ["gated", "narrow"]
    assert [(o.status, o.detail) for o in found["narrow"]] == [("unsupported", "narrow needs 'by'")]


def test_a_spec_without_a_kernel_for_the_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has a kernel for cpu.*XL3033"):
        kernel_outcomes(written(tmp_path, "c"), find("cpu"), Request())
