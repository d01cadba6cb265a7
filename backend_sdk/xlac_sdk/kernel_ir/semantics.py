"""What every primitive means, in NumPy: the definition that backends are tested against.

Functions take arrays (or NumPy scalars) of one dtype and return the exact result; transcendental
functions of f32 are computed in f64 and rounded, so they are correct to half an ulp but for ties.
Callers silence floating-point warnings with `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def evaluate(primitive: Primitive, operands: tuple[Any, ...], dtype: DType) -> Any:
    """A primitive on arrays of equal dtype; `dtype` is the result's."""
    if primitive is P.CAST:
        return cast(operands[0], dtype)
    if primitive is P.BITCAST:
        return np.asarray(operands[0]).view(dtype.numpy)
    return _MEANINGS[primitive](*operands)


def fold(primitive: Primitive, value: Array) -> Any:
    """All elements of a vector combined into one."""
    if primitive in (P.MAX, P.MIN):
        result = value[0]
        for count in _halves(len(value)):
            value = _MEANINGS[primitive](value[:count], value[len(value) - count :])
            result = value[0]
        return result
    return _REDUCTIONS[primitive].reduce(value, dtype=value.dtype)


FOLDABLE = frozenset({P.ADD, P.MUL, P.MAX, P.MIN, P.AND, P.OR, P.XOR})


def _halves(count: int) -> list[int]:
    found = []
    while count > 1:
        count = (count + 1) // 2
        found.append(count)
    return found


# ---- casts -----------------------------------------------------------------------------------


def cast(x: Any, dtype: DType) -> Any:
    """Truncates and saturates floats to integers, wraps integers, rounds floats to nearest even
    once.
    """
    x = np.asarray(x)
    source = DType.of(x.dtype)
    if source is dtype:
        return x
    if dtype is DType.BOOL:
        return x != 0
    if source.is_float and dtype.is_integer:
        return _to_integer(x.astype(np.float64), dtype)
    if dtype is DType.BF16 and source is DType.F64:
        return _round_to_odd(x).astype(dtype.numpy)
    if dtype.is_half and source.is_integer:
        return x.astype(np.float32).astype(dtype.numpy)
    return x.astype(dtype.numpy)


def _to_integer(x: Array, dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    low, above = float(info.min), float(info.max + 1)
    x = np.trunc(x)
    result = np.where((x >= low) & (x < above), x, 0.0).astype(dtype.numpy)
    result = np.where(x >= above, np.array(info.max, dtype.numpy), result)
    return np.where(x < low, np.array(info.min, dtype.numpy), result)


def _round_to_odd(x: Array) -> Array:
    """f64 to f32 so that a second, narrower rounding gives what one rounding would have."""
    near = np.asarray(x.astype(np.float32))
    with np.errstate(invalid="ignore"):
        error = x - near.astype(np.float64)
    bits = near.view(np.uint32)
    inexact = (error != 0) & np.isfinite(near) & (bits & 1 == 0) & (near != 0)
    away = (error > 0) == (near > 0)
    moved = np.where(away, bits + np.uint32(1), bits - np.uint32(1))
    return np.where(inexact, moved, bits).view(np.float32)


# ---- arithmetic ------------------------------------------------------------------------------


def _div(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    rest = a - quotient * safe
    towards_zero = quotient + ((rest != 0) & ((a < 0) != (safe < 0))).astype(quotient.dtype)
    return np.where(b == 0, ~np.zeros_like(towards_zero), towards_zero)


def _rem(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def _max(a: Any, b: Any) -> Any:
    result = np.maximum(a, b)
    if result.dtype.kind == "f" and not np.all(result):
        return _ordered(a, b, result, False)
    return result


def _min(a: Any, b: Any) -> Any:
    result = np.minimum(a, b)
    if result.dtype.kind == "f" and not np.all(result):
        return _ordered(a, b, result, True)
    return result


def _ordered(a: Any, b: Any, result: Any, negative: bool) -> Any:
    """Where the operands are zeros, the one of the wanted sign."""
    first = np.where(np.signbit(a) == negative, a, b)
    return np.where(a == b, first, result)


def _shl(a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    wide = (b < 0) | (b >= bits)
    return np.where(wide, np.zeros_like(a), np.left_shift(a, np.where(wide, np.zeros_like(b), b)))


def _shr(a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    wide = (b < 0) | (b >= bits)
    if a.dtype.kind == "i":
        return np.right_shift(a, np.where(wide, np.full_like(b, bits - 1), b))
    return np.where(wide, np.zeros_like(a), np.right_shift(a, np.where(wide, np.zeros_like(b), b)))


def _fma(a: Any, b: Any, c: Any) -> Any:
    if np.asarray(a).dtype == np.float32:
        exact = np.float64(a) * np.float64(b)  # 48 bits: no rounding
        total = exact + np.float64(c)
        return np.asarray(_odd64(exact, np.float64(c), total)).astype(np.float32)
    product = a * b
    a_high, b_high = _high(a), _high(b)
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


def _high(x: Any) -> Any:
    """The upper half of a double's significand (Veltkamp)."""
    scaled = x * 134217729.0
    return scaled - (scaled - x)


def _pow(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        result = _wide(np.power, a, b)
        # NumPy takes the power 1/2 by sqrt, which has no -inf
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


# ---- functions of floats ---------------------------------------------------------------------


def _wide(function: Callable[..., Any], *operands: Any) -> Any:
    """f32 by way of f64, so that the result is the correctly rounded one."""
    if operands[0].dtype == np.float32:
        return np.asarray(function(*(o.astype(np.float64) for o in operands))).astype(np.float32)
    return function(*operands)


def _through(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: _wide(function, *operands)


_object_erf = np.frompyfunc(math.erf, 1, 1)
_object_gelu = np.frompyfunc(lambda x: _gelu(float(x)), 1, 1)


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), np.where(np.isnan(x), x, small / (1 + small)))


def _gelu(x: float) -> float:
    """x/2 erfc(-x/sqrt 2), corrected to first order for what the quotient lost in rounding: 3 ulp
    down to -20.
    """
    if math.isnan(x) or abs(x) > 40.0:
        return math.copysign(0.0, x) if x < 0 else x
    z = -x * math.sqrt(0.5)
    high, unit = float(_high(x)), float(_high(math.sqrt(0.5)))
    low, rest = x - high, math.sqrt(0.5) - unit
    lost = (
        -(((high * unit + z) + high * rest + low * unit) + low * rest) + x * 4.833646656726457e-17
    )
    return 0.5 * x * (math.erfc(z) - 2 / math.sqrt(math.pi) * math.exp(-z * z) * lost)


def _ldexp(x: Any, n: Any) -> Any:
    # C's int; no float spans more exponents
    return np.ldexp(x, np.clip(n, -5000, 5000).astype(np.int32))


def _popcnt(x: Any) -> Any:
    x = np.asarray(x)
    flat = np.ascontiguousarray(x).reshape(-1)
    bits = np.unpackbits(flat.view(np.uint8).reshape(flat.size, x.dtype.itemsize), axis=1)
    return bits.sum(axis=1).astype(x.dtype).reshape(x.shape)


def _clz(x: Any) -> Any:
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


_MEANINGS: dict[Primitive, Callable[..., Any]] = {
    P.ADD: lambda a, b: a + b,
    P.SUB: lambda a, b: a - b,
    P.MUL: lambda a, b: a * b,
    P.DIV: _div,
    P.REM: _rem,
    P.MAX: _max,
    P.MIN: _min,
    P.LT: lambda a, b: a < b,
    P.LE: lambda a, b: a <= b,
    P.EQ: lambda a, b: a == b,
    P.NE: lambda a, b: a != b,
    P.AND: lambda a, b: a & b,
    P.OR: lambda a, b: a | b,
    P.XOR: lambda a, b: a ^ b,
    P.NOT: lambda a: ~a,
    P.SHL: _shl,
    P.SHR: _shr,
    P.SELECT: np.where,
    P.NEG: lambda a: -a,
    P.ABS: np.abs,
    P.FMA: _fma,
    P.FLOOR: np.floor,
    P.CEIL: np.ceil,
    P.TRUNC: np.trunc,
    P.ROUND: np.rint,
    P.SQRT: np.sqrt,
    P.EXP: _through(np.exp),
    P.LOG: _through(np.log),
    P.SIN: _through(np.sin),
    P.COS: _through(np.cos),
    P.POW: _pow,
    P.EXP2: _through(np.exp2),
    P.EXPM1: _through(np.expm1),
    P.LOG2: _through(np.log2),
    P.LOG1P: _through(np.log1p),
    P.TANH: _through(np.tanh),
    P.SIGMOID: _through(_sigmoid),
    P.ERF: _through(lambda x: np.asarray(_object_erf(x)).astype(np.float64)),
    P.GELU: _through(lambda x: np.asarray(_object_gelu(x)).astype(np.float64)),
    P.RSQRT: _through(lambda x: 1 / np.sqrt(x)),
    P.ATAN2: _through(np.arctan2),
    P.LDEXP: _ldexp,
    P.POPCNT: _popcnt,
    P.CLZ: _clz,
}

_REDUCTIONS: dict[Primitive, np.ufunc] = {
    P.ADD: np.add,
    P.MUL: np.multiply,
    P.AND: np.bitwise_and,
    P.OR: np.bitwise_or,
    P.XOR: np.bitwise_xor,
}
