"""The stand-in catches what a GPU would not forgive: each fault is planted, in CUDA C++ written by
hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cuda_harness import STANDIN, Counts
from numpy.typing import NDArray

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.open import gpu as opened

THREADS = 64
FLOATS = 256  # of the buffer that kernels get


def run(
    body: str,
    *,
    watched: bool = False,
    threads: int = THREADS,
    blocks: int = 2,
    dynamic: int = 0,
    before: str = "",
) -> NDArray[np.float32]:
    """Runs `body` as a kernel over `float *y` and `const float *x`, and returns y; x counts up."""
    text = (
        f'{before}\nextern "C" __global__ void __launch_bounds__(1024) planted(const float *x, '
        f"float *y, int n)\n{{\n{body}\n}}\n"
    )
    return launched(STANDIN.library(text, watched=watched), threads, blocks, dynamic)


def launched(library: Path, threads: int, blocks: int, dynamic: int) -> NDArray[np.float32]:
    gpu = opened()
    with gpu.current():
        stream, module = gpu.stream(), gpu.load(library.read_bytes())
        x, y = gpu.alloc(4 * FLOATS), gpu.alloc(4 * FLOATS)
        try:
            given, found = np.arange(FLOATS, dtype=np.float32), np.empty(FLOATS, np.float32)
            gpu.upload(x, given.ctypes.data, given.nbytes, stream)
            function = gpu.function(module, "planted", dynamic, 20)
            gpu.launch(function, blocks, threads, dynamic, struct.pack("QQi", x, y, FLOATS), stream)
            gpu.download(found.ctypes.data, y, found.nbytes, stream)
            gpu.sync(stream)
            return found
        finally:
            _give_back(
                gpu,
                lambda: gpu.free(x),
                lambda: gpu.free(y),
                lambda: gpu.drop_stream(stream),
                lambda: gpu.unload(module),
            )


def _give_back(gpu: Gpu, *what: Callable[[], None]) -> None:
    """Also after a fault, when a real driver would have taken all of it back with the context."""
    Counts().revive()
    for one in what:
        one()


SUM = """
    __shared__ float part[2];
    float v = x[blockIdx.x * 64 + threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = part[0] + part[1];
"""


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("seed", ["0", "7"])
def test_a_right_kernel_runs(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, watched: bool, seed: str
) -> None:
    monkeypatch.setenv("STANDIN_SEED", seed)
    found = run(SUM, watched=watched)
    whole = np.arange(FLOATS, dtype=np.float32).reshape(-1, 64).sum(axis=1)
    assert (found[:128].reshape(2, 64) == whole[:2, None]).all()
    assert np.isnan(found[128:]).all(), "memory begins poisoned"


def test_dynamic_shared_memory_and_atomics(counts: Counts) -> None:
    body = """
        extern __shared__ __align__(128) unsigned char pool[];
        float *held = (float *)pool;
        held[threadIdx.x] = x[threadIdx.x];
        if (blockIdx.x == 0) y[threadIdx.x] = 0.0f;
        __syncthreads();
        if (blockIdx.x == 1) atomicAdd(&y[0], held[63 - threadIdx.x]);
    """
    assert run(body, dynamic=4 * THREADS)[0] == np.arange(THREADS).sum()


FAULTS = {
    "a barrier that some threads pass by": (
        "if (threadIdx.x < 40) __syncthreads();",
        "never reached by thread",
    ),
    "two barriers for one": (
        "if (threadIdx.x < 32) { __syncthreads(); }\n else { __syncthreads(); }",
        "different barriers",
    ),
    "a shuffle that names a lane which has left": (
        (
            "if (threadIdx.x == 5) return; y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, "
            "x[threadIdx.x], 1);"
        ),
        "names lane 5, which has exited",
    ),
    "a shuffle whose mask leaves out who calls": (
        "y[threadIdx.x] = __shfl_xor_sync(0xfu, x[threadIdx.x], 1);",
        "does not name it",
    ),
    "a shuffle beside a barrier": (
        "if (threadIdx.x == 3) __syncthreads();\n else __syncwarp();",
        "waits at the barrier",
    ),
    "a write far outside": ("y[n + 4096] = 1.0f;", "address"),
    "a write before the start": ("y[-2000] = 1.0f;", "address"),
    "a stack that is too small": (
        "volatile float held[1 << 17]; held[threadIdx.x] = 1.0f; y[0] = held[0];",
        "local memory",
    ),
    "a misaligned access": (
        "*(float4 *)(y + 1 + 4 * threadIdx.x) = make_float4(1, 2, 3, 4);",
        "a misaligned access",
    ),
    "an integer divided by zero": ("y[0] = 7 / (n - 256);", "division by zero"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.sampled(4)
def test_a_planted_fault_is_caught(counts: Counts, name: str) -> None:
    body, said = FAULTS[name]
    with pytest.raises(DeviceError):
        run(body)
    assert said in counts.fault and counts.fault.startswith("planted: ")


TICKET = """
    __shared__ unsigned last;
    unsigned b = blockIdx.x;
    float v = x[b + 1];
    if (threadIdx.x == 0) { y[b + 1] = v; __threadfence(); }
    __syncthreads();
    if (threadIdx.x == 32) last = atomicInc((unsigned *)x, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    if (threadIdx.x == 5) {
        float sum = 0.0f;
        for (int i = 0; i < gridDim.x; ++i) sum += y[i + 1];
        y[9] = sum;
    }
"""
"""The last of several blocks adds what they found; x begins with a zero."""

WATCHED = {
    "a write just outside": (
        "y[n + threadIdx.x] = 1.0f;",
        "written at byte 1024 of an allocation of 1024 bytes",
    ),
    "a read just outside": ("y[threadIdx.x] = x[threadIdx.x == 9 ? n : 0];", "read at byte 1024"),
    "shared memory that nobody wrote": (
        "__shared__ float held[64]; y[threadIdx.x] = held[threadIdx.x];",
        "read before it is written",
    ),
    "a barrier forgotten": (
        (
            "__shared__ float held[64]; held[threadIdx.x] = x[threadIdx.x]; y[threadIdx.x] = "
            "held[63 "
            "- threadIdx.x];"
        ),
        "shared memory",
    ),
    "two threads that write one place": (
        (
            "__shared__ float held[4]; held[threadIdx.x % 4] = 1.0f; __syncthreads(); "
            "y[threadIdx.x] "
            "= held[0];"
        ),
        "a race in shared memory",
    ),
    "a place written again before all have read it": (
        """__shared__ float held[64]; held[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        float v = held[63 - threadIdx.x]; held[threadIdx.x] = v;""",
        "a race in shared memory",
    ),
    "two threads of a warp between which only a shuffle lies": (
        """__shared__ float held[64]; held[threadIdx.x] = x[threadIdx.x];
        float v = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
        y[threadIdx.x] = v + held[threadIdx.x ^ 1];""",
        "a race in shared memory",
    ),
    "two blocks that write one place": ("y[threadIdx.x] = blockIdx.x;", "a race in global memory"),
    "parts of another block that it did not fence": (
        TICKET.replace("y[b + 1] = v; __threadfence();", "y[b + 1] = v;"),
        "a race in global memory",
    ),
    "parts read without a fence": (
        TICKET.replace("return;\n    __threadfence();", "return;"),
        "a race in global memory",
    ),
    "parts read before all are there": (
        TICKET.replace("if (!last)", "if (b != 0 && !last)"),
        "a race in global memory",
    ),
    "a sum that is not atomic": (
        "if (threadIdx.x == 0) { y[0] = blockIdx.x; } else atomicAdd(&y[0], 1.0f);",
        "a race in global memory",
    ),
}


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.sampled(4)
def test_a_fault_that_only_watching_finds(counts: Counts, name: str) -> None:
    body, said = WATCHED[name]
    with pytest.raises(DeviceError):
        run(body, watched=True)
    assert said in counts.fault


def test_what_is_ordered_is_no_race(counts: Counts) -> None:
    body = """
        __shared__ float held[64];
        held[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        float v = held[threadIdx.x ^ 1];
        __syncthreads();
        held[63 - threadIdx.x] = v;
        __syncthreads();
        y[blockIdx.x * 64 + threadIdx.x] = held[threadIdx.x];
    """
    found = run(body, watched=True)
    assert (found[:64] == np.arange(64)[::-1] + np.where(np.arange(64) % 2, 1, -1)).all()


def test_fences_and_tickets_order_blocks(counts: Counts) -> None:
    found = run(TICKET, watched=True, blocks=3)
    assert found[1:4].tolist() == [1, 2, 3]
    assert found[9] == 6


@pytest.mark.parametrize(
    ("threads", "blocks", "dynamic"),
    [(1025, 1, 0), (64, 1, 300_000), (64, 1 << 31, 0)],
    ids=["threads", "shared", "blocks"],
)
def test_a_launch_beyond_the_limits_is_refused(
    counts: Counts, threads: int, blocks: int, dynamic: int
) -> None:
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE"):
        run("y[0] = 1.0f;", threads=threads, blocks=blocks, dynamic=dynamic)


def test_more_threads_than_the_kernel_was_bound_to(counts: Counts) -> None:
    text = (
        'extern "C" __global__ void __launch_bounds__(32) planted(const float *x, float *y, '
        "int n) { y[0] = x[0]; }\n"
    )
    with pytest.raises(DeviceError, match="LAUNCH_OUT_OF_RESOURCES"):
        launched(STANDIN.library(text), 64, 1, 0)


def test_work_waits_until_somebody_waits_for_it(counts: Counts) -> None:
    gpu = opened()
    with gpu.current():
        stream, place, held = gpu.stream(), gpu.alloc(4), gpu.pinned(8)
        memory = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint32 * 2).from_address(held))
        memory[0] = 7
        gpu.upload(place, held, 4, stream)
        gpu.download(held + 4, place, 4, stream)
        assert memory[1] == 0xFFFFFFFF, "nothing has run yet"
        gpu.sync(stream)
        assert memory[1] == 7
        gpu.free(place)
        gpu.unpin(held)
        gpu.drop_stream(stream)
