"""Checked programs on the GPU: the record comes back from it, loops and branches included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac.passes.checks.insert import watched
from xlac_cuda.backend import CudaBackend
from xlac_sdk.target import Request

SPEC = """
xlac: 1
model: rows
weights: {init: {seed: 0}}
inputs: {ids: "i32[3]", x: "f32[3, 4]"}
graph:
  e: {op: embedding, in: ids, count: 10, dim: 4}
  rnn:
    scan: {v: x}
    carry: {h: "zeros([4])"}
    body: {root: sqrt(v)}
    next: {h: h + root}
outputs: {y: e, h: rnn.h}
"""


def test_a_failed_check(backend: CudaBackend, tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(SPEC)
    model = watched(load(tmp_path / "rows.yaml"), ("bounds", "nan"))
    made = executable(lower(model, backend.target(Request())), backend)
    ids, x = np.asarray([1, 2, 3], np.int32), np.ones((3, 4), np.float32)
    for _ in range(3):
        assert (made(ids, x)["h"] == 3).all()
        with pytest.raises(xlac.CheckFailed, match=r"'e': index 30 is outside 0 to 9 at \[2\]"):
            made(ids + np.asarray([0, 0, 27], np.int32), x)
        bad = x.copy()
        bad[1, 2] = -1
        with pytest.raises(
            xlac.CheckFailed,
            match=r"'rnn.root': NaN appears in the result of sqrt.* at \[2\], in turn 2 of the "
            r"loop",
        ):
            made(ids, bad)
    made.executable.close()  # type: ignore[attr-defined]
