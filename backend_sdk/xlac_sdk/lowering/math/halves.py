"""16-bit floats stored as their bits (u16), for targets without these types."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math.comparison import magnitude
from xlac_sdk.lowering.math.value import Number, Value
from xlac_sdk.lowering.math.writer import Writer


def bits_of(value: Number, dtype: DType) -> int:
    """The bits of a number rounded to a half type."""
    import numpy as np

    with np.errstate(all="ignore"):
        return int(
            np.asarray(value, np.float64).astype(np.float32).astype(dtype.numpy).view(np.uint16)
        )


def widen(m: Writer, half: Value, dtype: DType) -> Value:
    """u16 bits of a 16-bit float to f32: exact, also for subnormals."""
    wide = half.cast(DType.U32)
    if dtype is DType.BF16:
        return (wide << 16).bitcast(DType.F32)
    body = (wide & 0x7FFF) << 13
    finite = body.bitcast(DType.F32) * 2.0**112  # rebases the exponent, also of subnormals
    special = (body | 0x7F800000).bitcast(DType.F32)
    value = m.select(body < 0x0F800000, finite, special)
    return (value.bitcast(DType.U32) | ((wide & 0x8000) << 16)).bitcast(DType.F32)


def narrow(m: Writer, x: Value, dtype: DType) -> Value:
    """A float to the bits of a 16-bit float, rounded once to nearest even; f64 goes through f32
    rounded to odd.
    """
    if x.dtype is DType.F64:
        x = _rounded_to_odd(m, x)
    bits = x.bitcast(DType.U32)
    if dtype is DType.BF16:
        even = bits + (((bits >> 16) & 1) + 0x7FFF)
        quiet = bits | 0x00400000
        return (m.select(x.isnan, quiet, even) >> 16).cast(DType.U16)
    a = bits & 0x7FFFFFFF
    # the exponent rebased by 15 - 127, minus half an ulp
    normal = (a + (((a >> 13) & 1) + 0xC8000FFF)) >> 13
    small = (a.bitcast(DType.F32) + 0.5).bitcast(DType.U32) - 0x3F000000  # rounded by an addition
    large = m.select(x.isnan, a.like(0x7E00), a.like(0x7C00))
    half = m.select(a < 0x38800000, small, m.select(a < 0x47800000, normal, large))
    return (half | ((bits >> 16) & 0x8000)).cast(DType.U16)


def _rounded_to_odd(m: Writer, x: Value) -> Value:
    """f64 to f32 rounded to odd, so that a later rounding to fewer bits gives the result of a
    single rounding.
    """
    near = x.cast(DType.F32)
    error = x - near.cast(DType.F64)
    bits = near.bitcast(DType.I32)
    finite = magnitude(near) < float("inf")
    inexact = error.ne(0.0) & finite & (bits & 1).eq(0) & near.ne(0.0)
    away = ~((error.like(0.0) < error) ^ (near.like(0.0) < near))
    moved = m.select(away, bits + 1, bits - 1)
    return m.select(inexact, moved, bits).bitcast(DType.F32)
