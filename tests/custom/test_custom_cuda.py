"""Hand-written kernels in CUDA C++: the text, and what is said where there is no device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from custom_ops import GATED, SPEC, written

from xlac.driver import agreed, lower
from xlac.hand_written.agreement import FACT
from xlac.model import Model
from xlac.spec.load import load
from xlac_cuda.backend import CudaBackend
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.target import Request

GATED_CU = """\
__device__ void gated(const float *a, const float *b, float *y, int64_t S, int64_t N, double slope,
                      unsigned char *shared)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < S * N) y[i] = a[i] * b[i % N] * (float)slope;
}
"""
CU = SPEC.replace(
    "{TARGET: gated.c}",
    "{cuda: {file: gated.cu, blocks: '${(S * N + 7) // 8}', threads: 8, shared: 256}}",
)


def in_cuda(folder: Path) -> Model:
    (folder / "gated.cu").write_text(GATED_CU)
    return replace(load(written(folder, "cuda", GATED, CU)), allow_kernels=True)


def test_the_module_has_the_function_and_its_launch(tmp_path: Path) -> None:
    backend = CudaBackend()
    lowered = lower(in_cuda(tmp_path), backend.target(Request(arch="sm_90a")))
    (text,) = backend.emit(lowered.program, lowered.target).values()
    assert '#line 1 "gated.cu"' in text and "static __device__ void hand_gated_" in text
    assert "__shared__" in text and GATED_CU.splitlines()[3] in text
    (own,) = [k for k in lowered.program.kernels if "hand-written" in k.note]
    form = grid(own)
    assert form is not None and form.threads == 8 and form.count({}) == 3


def test_without_a_device_it_is_not_compared(tmp_path: Path) -> None:
    """Unless there is one, which then runs it."""
    backend = CudaBackend()
    lowered = lower(in_cuda(tmp_path), backend.target(Request(arch="sm_90a")))
    (fact,) = agreed(lowered, backend).program.facts[FACT]
    assert fact["name"] == "gated" and fact["file"] == "gated.cu"
    assert "CUDA" in fact["not compared"] or not fact["not compared"]
