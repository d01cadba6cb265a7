"""Packed elements of 2 or 4 bits, as stored by ONNX and TensorFlow Lite."""

from __future__ import annotations

import numpy as np

from xlac.ir.op import Array


def fits(nbytes: int, bits: int, count: int) -> bool:
    """Whether `nbytes` bytes hold exactly `count` elements of `bits` bits."""
    each = 8 // bits
    return 0 <= nbytes * each - count < each


def unpacked(packed: memoryview, bits: int, count: int, signed: bool) -> Array:
    """The first `count` elements of `bits` bits (2 or 4), the first of each byte in its lowest
    bits: u8[count], or i8[count] if `signed`.
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = np.frombuffer(packed, np.uint8)[:, None] >> shifts & ((1 << bits) - 1)
    codes = codes.reshape(-1)[:count]
    if not signed:
        return codes
    return ((codes << (8 - bits)).view(np.int8) >> (8 - bits)).astype(np.int8)
