"""Inputs that a program is verified with: random ones, and those that break arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

Generator = np.random.Generator

EXPONENTS = {
    DType.F64: (-1074, 1023),
    DType.F32: (-149, 127),
    DType.F16: (-24, 15),
    DType.BF16: (-133, 127),
}
"""Of the smallest denormal and of the largest number."""


def random(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Normally distributed; integers from 0 to 7."""
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 8, shape).astype(dtype.numpy)


def large(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Magnitudes up to a sixteenth of the largest number, alike in the exponent."""
    if not dtype.is_float:
        return random(dtype, shape, generator)
    most = EXPONENTS[dtype][1] - 4
    return _scaled(dtype, generator.uniform(0, most, shape), shape, generator)


def tiny(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Magnitudes down to the smallest denormal."""
    if not dtype.is_float:
        return random(dtype, shape, generator)
    least = EXPONENTS[dtype][0]
    return _scaled(dtype, generator.uniform(least, least // 2, shape), shape, generator)


def special(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Random numbers, and one in sixteen NaN, an infinity or a zero with a sign."""
    found = random(dtype, shape, generator)
    if not dtype.is_float:
        return found
    rare = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(dtype.numpy)
    chosen = rare[generator.integers(0, len(rare), found.shape)]
    return np.where(generator.random(found.shape) < 1 / 16, chosen, found).astype(dtype.numpy)


def ties(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Whole numbers from -2 to 2, so that many are equal."""
    if dtype is DType.BOOL or not dtype.is_signed:
        return generator.integers(0, 2, shape).astype(dtype.numpy)
    if not dtype.is_float:
        return generator.integers(0, 3, shape).astype(dtype.numpy)
    return generator.integers(-2, 3, shape).astype(dtype.numpy)


def zeros(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Nothing but zeros."""
    return np.zeros(shape, dtype.numpy)


DRAWS: Mapping[str, Callable[[DType, Sequence[int], Generator], Array]] = {
    "random": random,
    "large": large,
    "tiny": tiny,
    "special": special,
    "ties": ties,
    "zeros": zeros,
}
"""By the name that `--draw` takes."""


def _scaled(dtype: DType, powers: Array, shape: Sequence[int], generator: Generator) -> Array:
    with np.errstate(all="ignore"):
        found = np.ldexp(generator.uniform(-1, 1, shape), np.floor(powers).astype(np.int64))
        return np.asarray(found).astype(dtype.numpy)
