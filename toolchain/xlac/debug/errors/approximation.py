"""An exact value, in float64, with a bound for the error of a computed result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xlac.ir.op import Array
from xlac.ops.error_bounds import FRACTION
from xlac_sdk.dtypes import DType

LEAST_EXPONENT = {DType.F64: -1074, DType.F32: -149, DType.F16: -24, DType.BF16: -133}
"""Exponent of the smallest denormal: units in the last place are no smaller."""


@dataclass(frozen=True, slots=True, eq=False)
class Approximation:
    """The exact value of a node, and a bound for the error of each element.

    `value` is in float64 for floats, else in the node's type. `error` is a float64 array of its
    shape, or None where the result is exact. An infinite error permits any value; for bools and
    integers any positive error permits other values. `overflowed` marks products of finite numbers
    that are infinite only because they are rounded before they are used; None where none is.
    """

    value: Array
    error: Array | None = None
    overflowed: Array | None = None

    @property
    def bound(self) -> Array:
        """The error as an array."""
        return np.zeros(self.value.shape) if self.error is None else self.error


def exact(inputs: Sequence[Approximation]) -> bool:
    """Whether all inputs are exact."""
    return all(x.error is None for x in inputs)


EXPONENT = np.uint64(0x7FF0_0000_0000_0000)
"""Mask of the exponent bits of a float64."""


def ulp(value: Array, dtype: DType) -> Array:
    """The unit in the last place of a float type at each magnitude, in float64."""
    bits = np.ascontiguousarray(value, np.float64).view(np.uint64) & EXPONENT
    power = bits.view(np.float64).reshape(np.shape(value))  # the power of two at or below
    return np.maximum(power * 2.0 ** -FRACTION[dtype], 2.0 ** LEAST_EXPONENT[dtype])


GREATEST = {
    DType.F64: float(np.finfo(np.float64).max),
    DType.F32: float(np.finfo(np.float32).max),
    DType.F16: 65504.0,
    DType.BF16: (2 - 2.0**-7) * 2.0**127,
}
"""The largest finite number of a float type."""


def settled(value: Array, error: Array | None, dtype: DType, certain: bool) -> Approximation:
    """A valid approximation for a type: values that certainly overflow become infinite; for those
    that may overflow, and where the error is NaN, the error is infinite.

    `certain` says that the operands are exact: then a NaN or an infinity is exact too, unless its
    error is NaN.
    """
    if not dtype.is_float:
        return Approximation(value, _any_of(error))
    most = GREATEST[dtype]
    limit = most + float(ulp(np.asarray(most), dtype))
    with np.errstate(all="ignore"):
        size = np.abs(value)
        bound = np.where(np.isnan(error), np.inf, error) if error is not None else None
        if dtype is not DType.F64 and bool((size > most).any()):
            sure = size - (0.0 if bound is None else bound) > limit
            value = np.where(sure, np.copysign(np.inf, value), value)
            bound = None if bound is None else np.where(sure, 0.0, bound)
        if bound is None:
            return Approximation(value)
        finite = np.isfinite(value)
        bound = np.where(finite & (size + bound > limit), np.inf, bound)
        if certain:
            kept = finite if error is None else finite | np.isnan(error)
            bound = np.where(kept, bound, 0.0)
    return Approximation(value, _any_of(bound))


def _any_of(error: Array | None) -> Array | None:
    """The error, with NaN as infinity; None where it is zero everywhere."""
    if error is None:
        return None
    error = np.where(np.isnan(error), np.inf, error)
    return error if bool(error.any()) else None
