"""Asks the real cuDNN for plans for an H200 that is not here, and prints what it says, as JSON: a
process of its own, whose `libcuda.so.1` is `standin/absent`. Run by `test_cuda_cudnn_plans.py`."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from typing import Any

from xlac_cuda.libraries import cudnn
from xlac_cuda.libraries.claims import SPACE
from xlac_cuda.libraries.cudnn_graph import Operations
from xlac_cuda.libraries.cudnn_names import CudnnType
from xlac_cuda.libraries.cudnn_plans import CudnnMachine
from xlac_cuda.libraries.cudnn_problems import refused, written
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.attention import Attention
from xlac_sdk.libraries.convolution import Convolution
from xlac_sdk.libraries.product import GELU, RELU
from xlac_sdk.libraries.strided import Strided

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
# CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, its attribute, CUDNN_TYPE_CHAR
DEVICEPROP, JSON_REPRESENTATION, CHARACTERS = 38, 2702, 24
H200 = {
    "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
    "pciDeviceId": 0x2335, "isTccDriver": 0, "multiProcessorCount": 132, "smCountOrigin": 0,
    "warpSize": 32, "totalGlobalMem": 150_000_000_000, "l2CacheSize": 60 << 20,
    "smClockRateKHz": 1_980_000, "memClockRateKHz": 3_201_000, "memoryBusWidth": 6144,
    "supportCoopLaunch": 1, "maxGridSize": [2**31 - 1, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
    "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 48 << 10, "maxSharedMemoryPerBlockOptin": 227 << 10,
    "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0,
}  # fmt: skip
LAST, FIRST = "last", "first"


def described(dnn: cudnn.Cudnn) -> CudnnMachine:
    """An H200 (cuDNN 9.8 or later)."""
    made, text = ctypes.c_void_p(), json.dumps(H200).encode()
    dnn("cudnnBackendCreateDescriptor", DEVICEPROP, ctypes.addressof(made))
    dnn(
        "cudnnBackendSetAttribute",
        made,
        JSON_REPRESENTATION,
        CHARACTERS,
        len(text),
        ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p),
    )
    dnn("cudnnBackendFinalize", made)

    # CUDNN_ATTR_…_DEVICEPROP of each
    heuristics, engine, plan = (_Only(number) for number in (204, 1307, 407))
    return CudnnMachine({}, {heuristics: made.value}, {engine: made.value}, {plan: made.value})  # type: ignore[dict-item]


class _Only:
    """An attribute that the backend itself never sets: a descriptor."""

    def __init__(self, number: int) -> None:
        self.value = number, CudnnType.DESCRIPTOR


def packed(dtype: DType, extents: tuple[int, ...], layout: str = FIRST) -> Strided:
    axes = range(len(extents))
    order = (0, *axes[2:], 1) if layout == LAST else tuple(axes)
    strides, step = [0] * len(extents), 1
    for axis in reversed(order):
        strides[axis], step = step, step * extents[axis]
    return Strided(dtype, extents, tuple(strides))


def convolution(
    dtype: DType,
    x: tuple[int, ...],
    filters: int,
    taps: int,
    layout: str = LAST,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    residual: bool = False,
    bias: DType | None = F32,
    activation: str = RELU,
    fast: bool = False,
) -> Convolution:
    rank = len(x) - 2
    pad, kernel = dilation * (taps - 1) // 2, (filters, x[1] // groups, *(taps,) * rank)
    y = (x[0], filters, *((n + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for n in x[2:]))
    result = packed(dtype, y, layout)
    return Convolution(
        packed(dtype, x, layout),
        packed(dtype, kernel, LAST),
        result,
        (stride,) * rank,
        (pad,) * rank,
        (pad,) * rank,
        (dilation,) * rank,
        groups,
        result if residual else None,
        bias,
        0,
        activation,
        SPACE,
        fast,
    )


def attention(
    dtype: DType,
    heads: tuple[int, int],
    times: tuple[int, int],
    width: int,
    mask: tuple[int, ...] = (),
    layout: str = FIRST,
    **given: Any,
) -> Attention:
    def side(count: int, time: int) -> Strided:
        steps = (
            (count * time * width, time * width, width, 1)
            if layout == FIRST
            else (count * time * width, width, count * width, 1)
        )
        return Strided(dtype, (4, count, time, width), steps)

    queries, keys = side(heads[0], times[0]), side(heads[1], times[1])
    return Attention(
        queries,
        keys,
        keys,
        queries,
        width**-0.5,
        mask=packed(dtype, mask) if mask else None,
        workspace=SPACE,
        **given,
    )


def problems() -> Iterator[tuple[str, Convolution | Attention]]:
    """What models ask for, and what is at the edge of what schedules claim."""
    for dtype, fast in ((BF16, False), (F16, False), (F32, True), (F32, False)):
        name = f"{dtype}{', fast' if fast else ''}"
        for what, made in {
            "resnet": convolution(dtype, (8, 64, 56, 56), 64, 3, fast=fast),
            "with a residual": convolution(
                dtype, (8, 64, 56, 56), 256, 1, residual=True, fast=fast
            ),
            "a residual alone": convolution(
                dtype, (8, 64, 56, 56), 64, 3, residual=True, bias=None, activation="", fast=fast
            ),
            "a bias of its type": convolution(
                dtype, (8, 64, 56, 56), 64, 3, residual=True, bias=dtype, fast=fast
            ),
            "gelu": convolution(dtype, (8, 64, 56, 56), 64, 3, activation=GELU, fast=fast),
            "channels first, a bias of its type": convolution(
                dtype, (8, 64, 28, 28), 64, 3, FIRST, residual=True, bias=dtype, fast=fast
            ),
            "channels first, nothing more": convolution(
                dtype, (8, 64, 28, 28), 64, 3, FIRST, bias=None, activation="", fast=fast
            ),
            "stride, dilation, groups": convolution(
                dtype, (2, 64, 57, 57), 128, 3, stride=2, dilation=2, groups=4, fast=fast
            ),
            "odd sizes": convolution(dtype, (3, 17, 13, 19), 23, 5, fast=fast),
            "a line": convolution(dtype, (8, 64, 500), 64, 3, fast=fast),
            "a volume": convolution(dtype, (2, 32, 8, 16, 16), 64, 3, fast=fast),
            "one image of one place": convolution(dtype, (1, 64, 1, 1), 64, 1, fast=fast),
        }.items():
            yield f"{name}: {what}", made
    for dtype in (BF16, F16):
        for what, attended in {
            "prefill": attention(dtype, (32, 32), (1024, 1024), 128, causal=True),
            "shared keys, more of them": attention(dtype, (32, 8), (512, 1024), 128, causal=True),
            "heads side by side": attention(dtype, (12, 12), (384, 384), 64, layout=LAST),
            "a mask of keys": attention(dtype, (12, 12), (384, 384), 64, mask=(4, 1, 1, 384)),
            "a mask for each head": attention(
                dtype, (12, 12), (384, 384), 64, mask=(1, 12, 384, 384), causal=True
            ),
            "odd sizes": attention(dtype, (3, 3), (77, 91), 40, causal=True),
        }.items():
            yield f"{dtype}: {what}", attended


def main() -> None:
    dnn = cudnn.installed()
    if dnn is None or dnn.version < (9, 21):
        json.dump({"plans": None}, sys.stdout)
        return
    machine, found = described(dnn), {}
    for name, problem in problems():
        operations = Operations(dnn, machine)
        try:
            written(problem, operations, [16] * 8)
            graph, notes = operations.graph(), refused(problem)
            plan = next(operations.suggested(graph, notes, problem.workspace), None)
            again = plan and operations.chosen(graph, plan.choice, notes, problem.workspace)
            found[name] = plan and {
                "engine": plan.choice.engine,
                "workspace": plan.workspace,
                "again": again is not None,
            }
        finally:
            operations.close()
    json.dump({"version": dnn.version, "plans": found}, sys.stdout)


if __name__ == "__main__":
    main()
