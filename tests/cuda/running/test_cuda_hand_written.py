"""Hand-written kernels on a GPU: what they are compared with, and what they give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_harness import Counts

from xlac.driver import executable, lower
from xlac.model import Model
from xlac.spec.load import load
from xlac_cuda.backend import CudaBackend
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SPEC = """\
xlac: 1
inputs: {x: "f32[4, 6]", w: "f32[6]"}
ops:
  gated:
    inputs: {a: "f32[*S, N]", b: "f32[N]"}
    outputs: {y: "f32[*S, N]"}
    params: {slope: 0.5}
    expr: {y: a * b * $slope}
    kernels: {cuda: {file: gated.cu, blocks: "${(S * N + 7) // 8}", threads: 8}}
graph: {y: "gated(x + 1, w, slope=2) * 3"}
outputs: [y]
"""
GATED = """\
__device__ void gated(const float *a, const float *b, float *y, int64_t S, int64_t N, double slope)
{
    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x;
    if (i < S * N) y[i] = a[i] * b[i % N] * (float)slope;
}
"""


def model(folder: Path, kernel: str) -> Model:
    (folder / "gated.cu").write_text(kernel)
    (folder / "own.yaml").write_text(SPEC)
    return replace(load(folder / "own.yaml"), allow_kernels=True)


def test_a_hand_written_kernel_runs(backend: CudaBackend, counts: Counts, tmp_path: Path) -> None:
    made = executable(lower(model(tmp_path, GATED), backend.target(Request())), backend)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (6,)))
    np.testing.assert_allclose(made(x=x, w=w), (x + 1) * w * 6, rtol=1e-5)


def test_one_that_is_wrong_is_found(backend: CudaBackend, counts: Counts, tmp_path: Path) -> None:
    wrong = model(tmp_path, GATED.replace("b[i % N]", "b[0]"))
    with pytest.raises(SourceError, match=r"y\[0, 1\] is .*XL3034"):
        executable(lower(wrong, backend.target(Request())), backend)
