"""The scalar primitives in NumPy, with the semantics that `xlac_sdk.primitives` states.

Arrays of half precision are widened by `widen` before they get here and rounded by `narrow` after.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import DType
from xlac_sdk.primitives import Primitive

Array = NDArray[Any]


def widen(array: Array) -> Array:
    """The array in its compute type: halves become float32, everything else stays."""
    if array.dtype.itemsize == 2 and array.dtype.kind not in "iu":
        return array.astype(np.float32)
    return array


def narrow(array: Any, dtype: np.dtype[Any]) -> Array:
    """A result rounded to an element type of the same class; float64 results of float64 work stay."""
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype, copy=False)


def is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def convert(array: Array, dtype: DType) -> Array:
    """`cast`: floats to integers truncate and saturate, NaN becomes 0, halves are reached through f32."""
    x = widen(array)
    with np.errstate(all="ignore"):
        if dtype is DType.BOOL:
            return np.asarray(x != 0)
        if dtype.is_integer and is_float(x):
            return _saturate(x, dtype.numpy)
        return np.asarray(x.astype(dtype.compute.numpy).astype(dtype.numpy, copy=False))


def _saturate(x: Array, dtype: np.dtype[Any]) -> Array:
    info = np.iinfo(dtype)
    whole = np.trunc(x)
    over, under = whole >= float(info.max) + 1.0, whole < float(info.min)  # exact: powers of two, or one less
    if info.max < 2**24:
        over = whole >= float(info.max + 1)
    inside = np.where(over | under | np.isnan(whole), 0, whole).astype(dtype)
    return np.where(over, dtype.type(info.max), np.where(under, dtype.type(info.min), inside))


def _divide(x: Array, y: Array) -> Array:
    if is_float(x):
        return np.asarray(np.divide(x, y))
    by, rest = _safe(x, y), _remainder(x, y)
    quotient = (x - np.where(y == 0, np.zeros_like(x), rest)) // by
    return np.where(y == 0, np.array(-1).astype(x.dtype), quotient)


def _remainder(x: Array, y: Array) -> Array:
    if is_float(x):
        return np.asarray(np.fmod(x, y))
    return np.where(y == 0, x, np.fmod(x, _safe(x, y)))


def _safe(x: Array, y: Array) -> Array:
    """A divisor that cannot trap: 1 where it is 0, or -1 under the smallest integer."""
    bad = y == 0
    if x.dtype.kind == "i":
        bad = bad | ((x == np.iinfo(x.dtype).min) & (y == -1))
    return np.where(bad, np.ones_like(y), y)


def _power(x: Array, y: Array) -> Array:
    """Integers wrap; a negative exponent is the truncated reciprocal, and of 0 it is -1 as 1/0 is."""
    if is_float(x):
        return np.asarray(np.power(x, y))
    if x.dtype.kind == "u":
        return np.asarray(np.power(x, y))
    power = np.power(x, np.abs(np.where(y == np.iinfo(y.dtype).min, 0, y)).astype(y.dtype))
    odd = np.where(y % 2 == 0, 1, -1).astype(x.dtype)
    inverse = np.where(x == 1, 1, np.where(x == -1, odd, np.where(x == 0, -1, 0))).astype(x.dtype)
    return np.where(y < 0, inverse, power)


def _maximum(x: Array, y: Array) -> Array:
    if not is_float(x):
        return np.asarray(np.maximum(x, y))
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))  # +0 + -0 is +0, the larger


def _minimum(x: Array, y: Array) -> Array:
    if not is_float(x):
        return np.asarray(np.minimum(x, y))
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


def _shift_left(x: Array, y: Array) -> Array:
    width = x.dtype.itemsize * 8
    amount = y.astype(np.uint64)
    return np.where(amount >= width, np.zeros_like(x), x << (amount % width).astype(x.dtype))


def _shift_right(x: Array, y: Array) -> Array:
    width = x.dtype.itemsize * 8
    amount = np.minimum(y.astype(np.uint64), width - 1)
    shifted = x >> amount.astype(x.dtype)
    if x.dtype.kind == "i":
        return np.asarray(shifted)
    return np.where(y.astype(np.uint64) >= width, np.zeros_like(x), shifted)


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    by_number = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(by_number(x.astype(np.float64)), dtype=object).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + power), power / (1 + power)).astype(x.dtype)


def _popcount(x: Array) -> Array:
    return np.asarray(np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype))


def _leading_zeros(x: Array) -> Array:
    bits = x.view(f"u{x.dtype.itemsize}").copy()
    width = x.dtype.itemsize * 8
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            bits = bits | (bits >> bits.dtype.type(step))
    return np.asarray((width - np.bitwise_count(bits).astype(np.int64)).astype(x.dtype))


def _not(x: Array) -> Array:
    return np.asarray(np.logical_not(x) if x.dtype == bool else np.invert(x))


def _negative(x: Array) -> Array:
    return np.asarray(-x if is_float(x) else np.zeros_like(x) - x)


P = Primitive
SCALAR: dict[Primitive, Callable[..., Any]] = {
    P.ADD: np.add, P.SUB: np.subtract, P.MUL: np.multiply, P.DIV: _divide, P.REM: _remainder,
    P.POW: _power, P.MAX: _maximum, P.MIN: _minimum, P.FLOOR: np.floor, P.ROUND: np.rint,
    P.CEIL: np.ceil, P.TRUNC: np.trunc, P.EXP: np.exp, P.EXP2: np.exp2, P.EXPM1: np.expm1,
    P.LOG: np.log, P.LOG2: np.log2, P.LOG1P: np.log1p, P.SIN: np.sin, P.COS: np.cos,
    P.SQRT: np.sqrt, P.ERF: _elementwise(math.erf), P.TANH: np.tanh, P.SIGMOID: _sigmoid,
    P.RSQRT: lambda x: 1 / np.sqrt(x), P.ATAN2: np.arctan2, P.AND: np.bitwise_and,
    P.OR: np.bitwise_or, P.XOR: np.bitwise_xor, P.SHL: _shift_left, P.SHR: _shift_right,
    P.NEG: _negative, P.ABS: np.abs, P.NOT: _not, P.POPCNT: _popcount, P.CLZ: _leading_zeros,
    P.LT: np.less, P.LE: np.less_equal, P.EQ: np.equal, P.NE: np.not_equal, P.SELECT: np.where,
}  # fmt: skip


def scalar(primitive: Primitive, *arrays: Array) -> Array:
    """A primitive on arrays of equal dtype; the result is rounded to that dtype (comparisons give bool)."""
    with np.errstate(all="ignore"):
        result = np.asarray(SCALAR[primitive](*(widen(a) for a in arrays)))
    if primitive.is_comparison:
        return result
    return narrow(result, arrays[-1].dtype)


# ---- combining many elements -------------------------------------------------------------------

COMBINE: dict[str, Primitive] = {
    "add": P.ADD, "mul": P.MUL, "max": P.MAX, "min": P.MIN, "and": P.AND, "or": P.OR, "xor": P.XOR,
}  # fmt: skip
_UFUNC: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def identity(combine: str, dtype: DType) -> int | float | bool:
    """What combining nothing gives: `combine(identity, x)` is x."""
    if combine in ("max", "min"):
        if dtype.is_float:
            return -math.inf if combine == "max" else math.inf
        info = np.iinfo(dtype.numpy)
        return int(info.min if combine == "max" else info.max)
    if combine == "and":
        return True if dtype is DType.BOOL else (-1 if dtype.is_signed else 2**dtype.bits - 1)
    one = 1 if combine == "mul" else 0
    return bool(one) if dtype is DType.BOOL else float(one) if dtype.is_float else one


def reduce(combine: str, x: Array, axes: tuple[int, ...]) -> Array:
    """All elements along `axes` combined in the compute type of the array, then rounded."""
    wide = widen(x)
    start = identity(combine, DType.of(wide.dtype))
    with np.errstate(all="ignore"):
        result = np.asarray(_UFUNC[combine].reduce(wide, axis=axes, dtype=wide.dtype, initial=start))
        if combine in ("max", "min") and is_float(wide):
            sought = np.any((wide == 0) & (np.signbit(wide) == (combine == "min")), axis=axes)
            zero = wide.dtype.type(0.0 if combine == "max" else -0.0)
            result = np.where((result == 0) & sought, zero, result)
    return narrow(result, x.dtype)


def accumulate(combine: str, x: Array, axis: int) -> Array:
    """Running combinations along an axis, in the compute type, each rounded."""
    wide = widen(x)
    with np.errstate(all="ignore"):
        return narrow(_UFUNC[combine].accumulate(wide, axis=axis, dtype=wide.dtype), x.dtype)
