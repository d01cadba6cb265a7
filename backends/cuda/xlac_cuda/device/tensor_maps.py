"""Tensor maps for TMA copies, encoded by the driver and cached."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache

from xlac_cuda.device.driver import driver
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.kernel_ir.kernel import TensorMap

BYTES = 128  # bytes of a tensor map, which is also its alignment
KEPT = 1024
TYPES = {DType.F16: 6, DType.F32: 7, DType.BF16: 9}  # CU_TENSOR_MAP_DATA_TYPE_…
PLAIN, SWIZZLE_128, PROMOTE_128, ZEROS = 0, 3, 2, 0


def at(given: TensorMap, address: int, sizes: Mapping[str, int]) -> bytes:
    """The encoded tensor map of a parameter at an address, for the kernel's sizes."""
    nbytes = given.buffer.dtype.nbytes
    # nothing is copied from an empty array
    extents = tuple(max(1, extent(n, sizes)) for n in given.extents)
    strides = tuple(extent(n, sizes) * nbytes for n in given.strides)
    return _encoded(
        given.buffer.dtype,
        address + extent(given.offset, sizes) * nbytes,
        extents,
        strides,
        given.box,
    )


@lru_cache(maxsize=KEPT)
def _encoded(
    dtype: DType, address: int, extents: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> bytes:
    """Encoded by the driver; axes are outermost first, strides in bytes."""
    rank = len(box)
    room = ctypes.create_string_buffer(2 * BYTES)
    start = -(-ctypes.addressof(room) // BYTES) * BYTES
    dims, steps = (
        (ctypes.c_uint64 * rank)(*reversed(extents)),
        (ctypes.c_uint64 * rank)(*reversed(strides)),
    )
    boxes, apart = (ctypes.c_uint32 * rank)(*reversed(box)), (ctypes.c_uint32 * rank)(*[1] * rank)
    arrays = [ctypes.addressof(array) for array in (dims, steps, boxes, apart)]
    driver()(
        "cuTensorMapEncodeTiled",
        start,
        TYPES[dtype],
        rank,
        address,
        *arrays,
        PLAIN,
        SWIZZLE_128,
        PROMOTE_128,
        ZEROS,
    )
    return ctypes.string_at(start, BYTES)
