"""Integers times real factors, to the bit of TensorFlow Lite's reference kernels: a factor is an
integer of 31 bits and a power of two. Most kernels round the product with the first to an integer,
divide it by the power of two and round again; some round once.

Source: QuantizeMultiplier and MultiplyByQuantizedMultiplier (kernels/internal/quantization_util.h,
kernels/internal/common.h).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

BITS = 31  # of a mantissa, after the point
LEAST = -31  # the least exponent: smaller factors count as 0
NARROW = 15  # bits of a mantissa for sums of 64 bits


class Multiplier(NamedTuple):
    """mantissa * 2^(exponent - 31), by tensor or by channel; a negative factor has a negative
    mantissa.
    """

    mantissa: Array  # i64
    exponent: Array  # i64


def multiplier(factor: Array | float) -> Multiplier:
    """The multiplier nearest to a factor f64[] or f64[n]. Raises ShapeError for one that is no
    number, as where a scale of 0 divides.
    """
    if not np.isfinite(factor).all():
        raise ShapeError("a ratio of scales is no finite number: one of them is 0, or all but 0")
    part, exponent = np.frexp(np.asarray(factor, np.float64))
    mantissa = half_away(part * 2.0**BITS).astype(np.int64)
    full = np.abs(mantissa) == 1 << BITS
    mantissa, exponent = np.where(full, mantissa // 2, mantissa), exponent + full
    small = exponent < LEAST
    return Multiplier(np.where(small, 0, mantissa), np.where(small, 0, exponent).astype(np.int64))


def half_away(x: Array) -> Array:
    """Numbers rounded to integers, halves away from zero."""
    rounded: Array = np.copysign(np.floor(np.abs(x) + 0.5), x)
    return rounded


def multiplied(x: Node, by: Multiplier, once: bool = False, most: int = 1 << BITS) -> Node:
    """Integers times a multiplier, i32: rounded twice, or `once`, halves up. Sums of 64 bits are
    multiplied by a mantissa of 15 bits, or of 31 if `once`, and rounded once. No integer is larger
    than `most`.
    """
    right = np.maximum(-by.exponent, 0)
    if x.type.dtype is DType.I64 and once:
        return _of_long_sums(x, by)
    if x.type.dtype is DType.I64:
        largest = (1 << NARROW) - 1
        mantissa = np.minimum((by.mantissa + (1 << NARROW)) >> BITS - NARROW, largest)
        bits = NARROW - by.exponent
        added = build.constant(np.int64(1) << bits - 1, DType.I64)
        product = build.add(build.mul(x, _wide(mantissa, x)), added)
        return build.cast(build.apply1("shr", product, build.constant(bits, DType.I64)), DType.I32)
    # where more bits follow, a product that is rounded once is cut off here
    half = np.where((right > 0) & once, 0, 1 << BITS - 1)
    if most < 1 << BITS - 2 and (by.exponent <= 0).all():
        # with two bits more it is the upper half of a product, which processors have
        more = build.mul(build.cast(x, DType.I32), 4)
        product = build.mul(build.cast(more, DType.I64), _wide(by.mantissa, x))
        high = build.cast(build.apply1("shr", product, 32), DType.I32)
        if half.any():
            high = build.add(high, build.constant(half >> BITS - 1, DType.I32))
        return divided(build.apply1("shr", high, 1), right, up=once)
    mantissa = by.mantissa << np.maximum(by.exponent, 0)
    product = build.mul(build.cast(x, DType.I64), _wide(mantissa, x))
    if half.any():
        product = build.add(product, build.constant(half, DType.I64))
    high = build.cast(build.apply1("shr", product, BITS), DType.I32)
    return divided(high, right, up=once)


def multiplied_numbers(x: Array, by: Multiplier) -> Array:
    """What `multiplied` gives for known integers i64 of at most 31 bits, rounded twice."""
    left, right = max(int(by.exponent), 0), max(-int(by.exponent), 0)
    high: Array = (x * (int(by.mantissa) << left) + (1 << BITS - 1)) >> BITS
    if not right:
        return high
    less = high >> 63  # halves of negative numbers go down
    rounded: Array = (high + less + (1 << right - 1)) >> right
    return rounded


def _of_long_sums(x: Node, by: Multiplier) -> Node:
    """Integers i64 of at most 47 bits times a multiplier, rounded once, halves away from zero: the
    upper bits and the lower 16 each times its 31 bits.
    """
    mantissa = build.constant(by.mantissa, DType.I64)
    high = build.mul(build.apply1("shr", x, 16), mantissa)
    low = build.mul(build.apply1("and", x, (1 << 16) - 1), mantissa)
    total = build.add(high, build.apply1("shr", low, 16))
    bits = np.maximum(BITS - 16 - by.exponent, 1)
    less = build.apply1("shr", total, 63)  # -1 for negative numbers
    rounded = build.add(build.add(total, less), build.constant(np.int64(1) << bits - 1, DType.I64))
    return build.cast(build.apply1("shr", rounded, build.constant(bits, DType.I64)), DType.I32)


def _wide(mantissa: Array, x: Node) -> Node:
    """Mantissas as i64, to be multiplied by x. They are stored in 32 bits where they fit, and
    widened where they are used: processors multiply numbers known to have 32 bits faster.
    """
    if mantissa.ndim and np.abs(mantissa).max(initial=0) < 1 << BITS:
        stored = build.constant(mantissa, DType.I32)
        return build.cast(build.broadcast_to(stored, x.shape), DType.I64)
    return build.constant(mantissa, DType.I64)


def divided(x: Node, bits: Array | int, up: bool = False) -> Node:
    """Integers divided by powers of two, halves away from zero, or `up`. None is the least or
    the greatest of its type.
    """
    counts = np.asarray(bits)
    if not counts.any():
        return x
    kind = x.type.dtype
    if not up:  # halves of negative numbers go down: 1 less, unless nothing is shifted out
        less = build.apply1("shr", x, kind.bits - 1)
        if not counts.all():
            less = build.apply1("and", less, build.constant(np.where(counts > 0, -1, 0), kind))
        x = build.add(x, less)
    # one bit is kept for the half, so that adding it cannot overflow
    nearly = build.apply1("shr", x, build.constant(np.maximum(counts - 1, 0), kind))
    last = build.constant(np.minimum(counts, 1), kind)
    return build.apply1("shr", build.add(nearly, last), last)
