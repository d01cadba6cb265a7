"""The semantics of every primitive in NumPy: the definition that backends are tested against.

Functions take arrays (or NumPy scalars) of one dtype and return the exact result; transcendental
functions of f32 are computed in f64 and rounded, so their error is half an ulp (slightly more at
ties). Callers silence floating-point warnings with `np.errstate(all="ignore")`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.scalar_semantics import (
    count_ones,
    divide,
    dot2,
    dot4,
    high_half,
    leading_zeros,
    maximum,
    minimum,
    multiply_add,
    power,
    remainder,
    shift_left,
    shift_right,
    widened,
)

P = Primitive


def evaluate(primitive: Primitive, operands: tuple[Any, ...], dtype: DType) -> Any:
    """A primitive on arrays of equal dtype; `dtype` is the result's."""
    if primitive is P.CAST:
        return cast(operands[0], dtype)
    if primitive is P.BITCAST:
        return bits(operands[0], dtype)
    return _MEANINGS[primitive](*operands)


def bits(x: Any, dtype: DType) -> Any:
    """The bits of a number, or of all lanes of a vector, as another type, the lowest first."""
    x = np.asarray(x)
    if x.dtype.itemsize == dtype.nbytes:
        return x.view(dtype.numpy)
    lowest_first = x.astype(x.dtype.newbyteorder("<"), copy=False)
    whole = np.ascontiguousarray(lowest_first).reshape(-1).view(dtype.numpy.newbyteorder("<"))
    return whole.astype(dtype.numpy, copy=False)


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
    counts = []
    while count > 1:
        count = (count + 1) // 2
        counts.append(count)
    return counts


# ---- casts -----------------------------------------------------------------------------------


def cast(x: Any, dtype: DType) -> Any:
    """Converts: floats to integers truncate and saturate, integers wrap, floats round once to
    nearest even.
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


# ---- functions of floats ---------------------------------------------------------------------


def _through(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: widened(function, *operands)


_object_erf = np.frompyfunc(math.erf, 1, 1)
_object_gelu = np.frompyfunc(lambda x: _gelu(float(x)), 1, 1)


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), np.where(np.isnan(x), x, small / (1 + small)))


def _gelu(x: float) -> float:
    """x/2 erfc(-x/sqrt 2), with a first-order correction for the rounding of the quotient: 3 ulp
    down to -20.
    """
    if math.isnan(x) or abs(x) > 40.0:
        return math.copysign(0.0, x) if x < 0 else x
    z = -x * math.sqrt(0.5)
    high, unit = float(high_half(x)), float(high_half(math.sqrt(0.5)))
    low, rest = x - high, math.sqrt(0.5) - unit
    lost = (
        -(((high * unit + z) + high * rest + low * unit) + low * rest) + x * 4.833646656726457e-17
    )
    return 0.5 * x * (math.erfc(z) - 2 / math.sqrt(math.pi) * math.exp(-z * z) * lost)


def _ldexp(x: Any, n: Any) -> Any:
    # ldexp takes C's int; larger exponents have no effect
    return np.ldexp(x, np.clip(n, -5000, 5000).astype(np.int32))


_MEANINGS: dict[Primitive, Callable[..., Any]] = {
    P.ADD: lambda a, b: a + b,
    P.SUB: lambda a, b: a - b,
    P.MUL: lambda a, b: a * b,
    P.DIV: divide,
    P.REM: remainder,
    P.MAX: maximum,
    P.MIN: minimum,
    P.LT: lambda a, b: a < b,
    P.LE: lambda a, b: a <= b,
    P.EQ: lambda a, b: a == b,
    P.NE: lambda a, b: a != b,
    P.AND: lambda a, b: a & b,
    P.OR: lambda a, b: a | b,
    P.XOR: lambda a, b: a ^ b,
    P.NOT: lambda a: ~a,
    P.SHL: shift_left,
    P.SHR: shift_right,
    P.SELECT: np.where,
    P.NEG: lambda a: -a,
    P.ABS: np.abs,
    P.FMA: multiply_add,
    P.FLOOR: np.floor,
    P.CEIL: np.ceil,
    P.TRUNC: np.trunc,
    P.ROUND: np.rint,
    P.SQRT: np.sqrt,
    P.EXP: _through(np.exp),
    P.LOG: _through(np.log),
    P.SIN: _through(np.sin),
    P.COS: _through(np.cos),
    P.POW: power,
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
    P.POPCNT: count_ones,
    P.CLZ: leading_zeros,
    P.DOT4: dot4,
    P.DOT2: dot2,
    P.LOOKUP: lambda *x: np.choose(x[-1] % len(x[:-1]), x[:-1]),
}

_REDUCTIONS: dict[Primitive, np.ufunc] = {
    P.ADD: np.add,
    P.MUL: np.multiply,
    P.AND: np.bitwise_and,
    P.OR: np.bitwise_or,
    P.XOR: np.bitwise_xor,
}
