"""What kernels are compared with, and which differences are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, SPEC, run, written

import xlac
from xlac.hand_written.agreement import differs
from xlac_sdk.source import SourceError

TARGETS = pytest.mark.parametrize("target", ["c", "cpu"])
SCRATCH = GATED.replace("double slope)", "double slope, void *scratch)")


@TARGETS
@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        ("a * b * $slope", "a * b * $slope * 2"),
        ("{y: a * b * $slope * 2}\n    tolerance: 10", "{y: a * b * $slope * 2}"),
    ],
)
def test_a_kernel_that_agreed_is_compared_again_when_its_meaning_or_bound_changes(
    tmp_path: Path, target: str, loose: str, strict: str
) -> None:
    specs = [
        SPEC.replace("a * b * $slope" if text[0] == "a" else "{y: a * b * $slope}", text)
        for text in (loose, strict)
    ]
    run(written(tmp_path, target, spec=specs[0]), target, allow_kernels=True)
    with pytest.raises(SourceError, match="XL3034"):
        run(written(tmp_path, target, spec=specs[1]), target, allow_kernels=True)


def test_nothing_but_infinity_is_near_infinity() -> None:
    want = np.array([np.inf, -np.inf, np.inf, np.inf, -np.inf, np.nan, 1.0], np.float32)
    got = np.array([np.inf, -np.inf, -np.inf, 5.0, np.nan, np.nan, np.inf], np.float32)
    wrong = [False, False, True, True, True, False, True]
    assert differs(got, want, 1e-5, 0.0).tolist() == wrong


@TARGETS
def test_scratch_of_no_bytes_is_a_parameter(tmp_path: Path, target: str) -> None:
    kernels = "{TARGET: {file: gated.c, scratch: '${N * 4 - 24}'}}"
    file = written(tmp_path, target, SCRATCH, SPEC.replace("{TARGET: gated.c}", kernels))
    got, want = run(file, target, allow_kernels=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_scratch_that_may_be_negative_for_an_open_size_is_refused(tmp_path: Path) -> None:
    spec = SPEC.replace("model: own", "model: own\ndims: {B: {min: 1, max: 9}}")
    spec = spec.replace("f32[4, 6]", "f32[B, 6]")
    kernels = "{TARGET: {file: gated.c, scratch: '${S - 12}'}}"
    file = written(tmp_path, "c", SCRATCH, spec.replace("{TARGET: gated.c}", kernels))
    with pytest.raises(SourceError, match=r"may be -11: less than 0.*XL3031"):
        xlac.compile(file, "c", allow_kernels=True)
