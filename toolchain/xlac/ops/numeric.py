"""Evaluates primitives in NumPy: the SDK's definitions, with half precision widened before and
rounded after.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import semantics
from xlac_sdk.kernel_ir.primitives import Primitive, result_dtype

Array = NDArray[Any]


def widen(array: Array) -> Array:
    """The array in its compute type: float32 for half precision, otherwise unchanged."""
    if array.dtype.itemsize == 2 and array.dtype.kind not in "iu":
        return array.astype(np.float32)
    return array


def narrow(array: Any, dtype: np.dtype[Any]) -> Array:
    """A result rounded to an element type; float64 results of float64 operands are unchanged."""
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype, copy=False)


def is_float(array: Array) -> bool:
    """Whether an array has a float type, bf16 included."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def convert(array: Array, dtype: DType) -> Array:
    """`cast`, where halves are reached through f32."""
    with np.errstate(all="ignore"):
        return np.asarray(semantics.cast(semantics.cast(widen(array), dtype.compute), dtype))


def scalar(primitive: Primitive, *arrays: Array) -> Array:
    """A primitive on arrays of equal dtype; the result is rounded to that dtype (bool for
    comparisons).
    """
    wide = tuple(widen(a) for a in arrays)
    dtype = result_dtype(primitive, tuple(DType.of(a.dtype) for a in wide))
    with np.errstate(all="ignore"):
        result = np.asarray(semantics.evaluate(primitive, wide, dtype))
    return result if primitive.is_comparison else narrow(result, arrays[-1].dtype)


# ---- combining many elements -------------------------------------------------------------------

P = Primitive
COMBINE: dict[str, Primitive] = {
    "add": P.ADD,
    "mul": P.MUL,
    "max": P.MAX,
    "min": P.MIN,
    "and": P.AND,
    "or": P.OR,
    "xor": P.XOR,
}
_UFUNC: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def identity(combine: str, dtype: DType) -> int | float | bool:
    """The identity of a combination: `combine(identity, x)` is x."""
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
    """Combines all elements along `axes` in the compute type, sums of floats in a wider type, and
    rounds the result.
    """
    wide = widen(x)
    start = identity(combine, DType.of(wide.dtype))
    with np.errstate(all="ignore"):
        dtype = wider(wide.dtype) if combine == "add" else wide.dtype
        result = np.asarray(_UFUNC[combine].reduce(wide, axis=axes, dtype=dtype, initial=start))
        if combine in ("max", "min") and is_float(wide):
            sought = np.any((wide == 0) & (np.signbit(wide) == (combine == "min")), axis=axes)
            zero = wide.dtype.type(0.0 if combine == "max" else -0.0)
            result = np.where((result == 0) & sought, zero, result)
    return narrow(result, x.dtype)


def wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that sums are made in, wide enough that their length does not matter: a wider float,
    or the integer type itself.
    """
    return (
        dtype
        if dtype.kind != "f"
        else np.dtype(np.longdouble if dtype.itemsize == 8 else np.float64)
    )


def accumulate(combine: str, x: Array, axis: int) -> Array:
    """Running combinations along an axis in the compute type, sums of floats in a wider type, each
    rounded.
    """
    wide = widen(x)
    with np.errstate(all="ignore"):
        dtype = wider(wide.dtype) if combine == "add" else wide.dtype
        return narrow(_UFUNC[combine].accumulate(wide, axis=axis, dtype=dtype), x.dtype)
