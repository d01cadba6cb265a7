"""Semantics of single primitives for which NumPy has no exact equivalent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def divide(a: Any, b: Any) -> Any:
    """Division; of integers truncated, and by 0 the integer with all bits set."""
    if np.asarray(a).dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    rest = a - quotient * safe
    towards_zero = quotient + ((rest != 0) & ((a < 0) != (safe < 0))).astype(quotient.dtype)
    return np.where(b == 0, ~np.zeros_like(towards_zero), towards_zero)


def remainder(a: Any, b: Any) -> Any:
    """The remainder, with the dividend's sign; of integers by 0 the dividend."""
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def maximum(a: Any, b: Any) -> Any:
    """The maximum; NaN if either operand is."""
    result = np.maximum(a, b)
    if result.dtype.kind == "f" and not np.all(result):
        return _ordered(a, b, result, False)
    return result


def minimum(a: Any, b: Any) -> Any:
    """The minimum; NaN if either operand is."""
    result = np.minimum(a, b)
    if result.dtype.kind == "f" and not np.all(result):
        return _ordered(a, b, result, True)
    return result


def _ordered(a: Any, b: Any, result: Any, negative: bool) -> Any:
    """Selects the zero with the required sign if both operands are zeros."""
    first = np.where(np.signbit(a) == negative, a, b)
    return np.where(a == b, first, result)


def dot4(x: Any, y: Any, total: Any) -> Any:
    """total plus the products of the bytes of two words, wrapping; those of y are signed, those of
    x as x is.
    """
    word = np.asarray(x).dtype
    bytes_of_x = np.asarray(x)[..., None].view(np.int8 if word.kind == "i" else np.uint8)
    bytes_of_y = np.asarray(y)[..., None].view(np.int8)
    products = bytes_of_x.astype(np.int32) * bytes_of_y.astype(np.int32)
    return total + products.sum(-1, dtype=np.int32)


def dot2(x: Any, y: Any, total: Any) -> Any:
    """total plus the products of the two i16 of each word, wrapping."""
    pairs = (np.asarray(word)[..., None].view(np.int16).astype(np.int32) for word in (x, y))
    with np.errstate(over="ignore"):
        return total + np.multiply(*pairs).sum(-1, dtype=np.int32)


def shift_left(a: Any, b: Any) -> Any:
    """A left shift; 0 for shifts by the width or more."""
    bits = a.dtype.itemsize * 8
    wide = (b < 0) | (b >= bits)
    return np.where(wide, np.zeros_like(a), np.left_shift(a, np.where(wide, np.zeros_like(b), b)))


def shift_right(a: Any, b: Any) -> Any:
    """A right shift, arithmetic for signed integers; shifts by the width or more give 0 or -1."""
    bits = a.dtype.itemsize * 8
    wide = (b < 0) | (b >= bits)
    if a.dtype.kind == "i":
        return np.right_shift(a, np.where(wide, np.full_like(b, bits - 1), b))
    return np.where(wide, np.zeros_like(a), np.right_shift(a, np.where(wide, np.zeros_like(b), b)))


_LAST = np.int64(0x0FFFFFFF)


def multiply_add(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once."""
    if a.dtype == np.float32:
        # the product of two 24-bit significands has 48 bits: no rounding
        exact = a.astype(np.float64) * b
        total = exact + c
        near = total.astype(np.float32)
        # double rounding differs from a single one only if the first gives a tie, whose last 28
        # bits are 0
        low = total.view(np.int64) & _LAST
        if np.count_nonzero(low) == low.size or ((low != 0) | (near == total)).all():
            return near
        return np.asarray(_odd64(exact, np.float64(c), total)).astype(np.float32)
    product = a * b
    a_high, b_high = high_half(a), high_half(b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    seen = total - product
    rest = (product - (total - seen)) + (c - seen)
    exact = total + (rest + error)
    return np.where(np.isfinite(exact), exact, total)


def _odd64(x: Any, y: Any, total: Any) -> Any:
    """The f64 sum `x + y` rounded to odd, so that rounding it to f32 rounds once."""
    seen = total - x
    rest = (x - (total - seen)) + (y - seen)
    bits = np.asarray(total).view(np.int64)
    inexact = (rest != 0) & np.isfinite(total) & np.isfinite(rest) & (bits & 1 == 0)
    away = (rest > 0) == (np.asarray(total) > 0)
    return np.where(inexact, np.where(away, bits + 1, bits - 1), bits).view(np.float64)


def high_half(x: Any) -> Any:
    """The upper half of a double's significand (Veltkamp)."""
    scaled = x * 134217729.0
    return scaled - (scaled - x)


def power(a: Any, b: Any) -> Any:
    """A power; of integers by repeated squaring, with wrapping."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        result = widened(np.power, a, b)
        # NumPy computes the power 1/2 by sqrt, which differs at -inf
        open_end = np.isneginf(a) & np.isfinite(b) & (b != np.floor(b))
        return (
            np.where(open_end, np.where(b > 0, np.inf, 0.0).astype(a.dtype), result)
            if open_end.any()
            else result
        )
    negative = b < 0
    exponent = np.where(negative, np.zeros_like(b), b)
    result, square = np.ones_like(a), a.copy()
    while np.any(exponent):
        result = np.where(exponent & 1 == 1, result * square, result)
        square, exponent = square * square, exponent >> 1
    unit = np.where(
        a == 1, 1, np.where(a + np.ones_like(a) == 0, np.where(b & 1 == 1, -1, 1), 0)
    ).astype(a.dtype)
    return np.where(negative, unit, result)


def widened(function: Callable[..., Any], *operands: Any) -> Any:
    """A function of f32 computed in f64, so that the result is correctly rounded."""
    if operands[0].dtype == np.float32:
        return np.asarray(function(*(o.astype(np.float64) for o in operands))).astype(np.float32)
    return function(*operands)


def count_ones(x: Any) -> Any:
    """The number of 1 bits."""
    x = np.asarray(x)
    flat = np.ascontiguousarray(x).reshape(-1)
    bits = np.unpackbits(flat.view(np.uint8).reshape(flat.size, x.dtype.itemsize), axis=1)
    return bits.sum(axis=1).astype(x.dtype).reshape(x.shape)


def leading_zeros(x: Any) -> Any:
    """The number of bits above the highest 1; the width for 0."""
    x = np.asarray(x)
    width = x.dtype.itemsize * 8
    rest = (
        x.astype(np.int64).astype(np.uint64) & np.uint64((1 << width) - 1)
        if x.dtype.kind == "i"
        else x.astype(np.uint64)
    )
    count = np.full(x.shape, width, np.int64)
    while np.any(rest):
        count -= rest != 0
        rest = rest >> np.uint64(1)
    return count.astype(x.dtype)
