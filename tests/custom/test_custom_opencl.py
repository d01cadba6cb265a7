"""Hand-written kernels in OpenCL C: the text, which needs no driver, and what it gives where there
is one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, SPEC, run, written

import xlac
from xlac.driver import lower
from xlac.spec.load import load
from xlac_sdk.backend import Backend
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request

opencl = pytest.importorskip("xlac_opencl", reason="the distribution xlac-opencl")
KINDS = ("gpu", "cpu")
GATED_CL = """\
void gated(const __global float *a, const __global float *b, __global float *y, long S, long N,
           double slope, __local uchar *shared)
{
    __local float *const row = (__local float *)shared;
    for (long j = get_local_id(0); j < N; j += get_local_size(0)) row[j] = b[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    const long i = get_global_id(0);
    if (i < S * N) y[i] = a[i] * row[i % N] * (float)slope;
}
"""
CL = SPEC.replace(
    "{TARGET: gated.c}",
    "{opencl: {file: gated.cl, blocks: '${(S * N + 7) // 8}', threads: 8, shared: 256}}",
)


def in_opencl(folder: Path, text: str = GATED_CL) -> Path:
    (folder / "gated.cl").write_text(text)
    return written(folder, "opencl", GATED, CL)


@pytest.fixture
def device() -> None:
    """A device of this machine, or the test is skipped."""
    try:
        opencl.BACKEND.target(Request())
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_has_the_function_and_its_launch(tmp_path: Path, kind: str) -> None:
    """With facts of a processor too: the launch is the author's."""
    backend: Backend = opencl.BACKEND
    target = backend.target(Request(arch=f"generic-{kind}"))
    model = replace(load(in_opencl(tmp_path)), allow_kernels=True)
    (text,) = backend.emit(lower(model, target).program, target).values()
    declaration = text.index("static void hand_gated_")
    assert declaration < text.index("__kernel") < text.index('#line 1 "gated.cl"')
    assert "const __global float *, const __global float *, __global float *" in text
    assert "reqd_work_group_size(8, 1, 1)" in text and "__local uchar vshared_[256]" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_runs(device: None, tmp_path: Path, kind: str) -> None:
    got, want = run(in_opencl(tmp_path), "opencl", arch=kind, allow_kernels=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_wrong_is_found(device: None, tmp_path: Path, kind: str) -> None:
    file = in_opencl(tmp_path, GATED_CL.replace("row[i % N]", "row[0]"))
    with pytest.raises(SourceError, match=r"y\[0, 1\] is .*XL3034"):
        run(file, "opencl", arch=kind, allow_kernels=True)


def test_a_wrong_signature_is_the_drivers_error(device: None, tmp_path: Path) -> None:
    file = in_opencl(tmp_path, GATED_CL.replace("double slope", "int slope"))
    with pytest.raises(UnsupportedError, match=r"(?s)hand_gated.*XL5023"):
        run(file, "opencl", allow_kernels=True)


SCRATCH_CL = """\
void gated(const __global float *a, __global float *y, long N, __global void *scratch)
{
    __global float *const twice = scratch;
    for (long i = 0; i < N; ++i) twice[i] = a[i] + a[i];
    for (long i = 0; i < N; ++i) y[i] = twice[N - 1 - i];
}
"""
SCRATCHED = """\
xlac: 1
model: own
dims: {rows: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[rows]"}
ops:
  gated:
    inputs: {a: "f32[N]"}
    outputs: {y: "f32[N]"}
    expr: {y: "flip(a * 2, axis=0)"}
    kernels: {opencl: {file: gated.cl, scratch: "${4 * N}"}}
graph: {y: "gated(x) + 1"}
outputs: [y]
"""


def test_scratch_memory_and_open_sizes(device: None, tmp_path: Path) -> None:
    (tmp_path / "gated.cl").write_text(SCRATCH_CL)
    file = written(tmp_path, "opencl", GATED, SCRATCHED)
    model = xlac.compile(file, "opencl", sizes="symbolic", allow_kernels=True)
    for rows in (1, 5):
        x = np.arange(rows, dtype=np.float32)
        np.testing.assert_array_equal(model(x=x), x[::-1] * 2 + 1)
