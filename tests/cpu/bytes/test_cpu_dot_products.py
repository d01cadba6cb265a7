"""Dot products of bytes and what rounds their sums to bytes again, on several processors, against
the interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest
from cpu_programs import both, kernel_of, machine, same
from processors import needs_processor

from xlac_sdk.conformance.values import arguments
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import apply, load, ramp
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.kernel_ir.primitives import operand_dtypes

COUNT = 192
PROCESSORS = {  # and what computes dot products of bytes there
    "": "",
    "x86-64": "pmaddwd",
    "x86-64-v3": "pmaddwd",
    "x86-64-v4": "pmaddwd",
    "alderlake": "vpdpbusd",
    "cascadelake": "vpdpbusd",
}


@pytest.mark.parametrize(
    ("primitive", "kind"), [(P.DOT4, DType.U32), (P.DOT4, DType.I32), (P.DOT2, DType.I32)]
)
@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(12)
def test_dot_products(primitive: P, kind: DType, cpu: str) -> None:
    """Of bytes and of i16: extremes on both sides, sums that wrap, vectors that are no register."""
    needs_processor(cpu)
    given = arguments(primitive, operand_dtypes(primitive, kind), COUNT)
    extremes = np.array([0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x80008000], np.uint32)
    for array, repeats in zip(given, (1, 4, 16), strict=True):
        array[:64] = np.tile(np.repeat(extremes, repeats), 16 // repeats).view(array.dtype)
    count, target = len(given[0]), machine(cpu=cpu)
    assert not PROCESSORS[cpu] or target.machine["dots"] == PROCESSORS[cpu]
    for lanes in (1, 3, 4, 8, 16, 24):

        def body(b, buffers, lanes=lanes):  # type: ignore[no-untyped-def]
            with b.loop("i", 0, count // lanes * lanes, lanes) as i:
                at = ramp(i, 1, lanes)
                b.store(buffers["s"], at, apply(primitive, *(load(buffers[n], at) for n in "xyt")))

        reads = {"x": (kind, count), "y": (DType.I32, count), "t": (DType.I32, count)}
        kernel = kernel_of(body, reads, {"s": (DType.I32, count // lanes * lanes)})
        ours, right = both(kernel, target, **dict(zip("xyt", given, strict=True)))
        assert same(ours["s"], right["s"])


@pytest.mark.parametrize("cpu", ["", "x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.U16, DType.I16, DType.I32])
@pytest.mark.sampled(6)
def test_rounded_floats_become_integers(dtype: DType, cpu: str) -> None:
    """Ties, both limits, and what is far beyond them or no number; one conversion may round."""
    needs_processor(cpu)
    info = np.iinfo(dtype.numpy)
    ends = np.array([info.min, info.max, 0, 1, -1, 6, 1e9, -1e9, 3e38, -3e38], np.float32)
    near = [np.nextafter(ends, np.float32(to)) for to in (-np.inf, np.inf)]
    some = [ends, *near, *(ends + np.float32(by) for by in (-0.5, 0.5, -1.5, 1.5, 0.25))]
    some += [np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, 2.5], np.float32)]
    given = np.resize(np.concatenate(some), COUNT)
    for lanes in (1, 4, 16, 24, 64):

        def body(b, buffers, lanes=lanes):  # type: ignore[no-untyped-def]
            with b.loop("i", 0, COUNT, lanes) as i:
                at = ramp(i, 1, lanes)
                whole = b.let("r", apply(P.ROUND, load(buffers["a"], at)))
                b.store(buffers["s"], at, apply(P.CAST, whole, dtype=dtype))

        kernel = kernel_of(body, {"a": (DType.F32, COUNT)}, {"s": (dtype, COUNT)})
        ours, right = both(kernel, machine(cpu=cpu), a=given)
        assert same(ours["s"], right["s"])
