"""Inputs that a program is verified with: random ones, and ones that stress arithmetic."""

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
"""Binary exponents of the smallest denormal and of the largest number."""


def random(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Normally distributed; integers from 0 to 7."""
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 8, shape).astype(dtype.numpy)


def large(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Magnitudes up to a sixteenth of the largest number, with uniformly distributed exponents."""
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
    """Random numbers, one in sixteen of which is NaN, an infinity or a signed zero."""
    array = random(dtype, shape, generator)
    if not dtype.is_float:
        return array
    rare = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(dtype.numpy)
    chosen = rare[generator.integers(0, len(rare), array.shape)]
    return np.where(generator.random(array.shape) < 1 / 16, chosen, array).astype(dtype.numpy)


def ties(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """Whole numbers from -2 to 2, so that many are equal."""
    if dtype is DType.BOOL or not dtype.is_signed:
        return generator.integers(0, 2, shape).astype(dtype.numpy)
    if not dtype.is_float:
        return generator.integers(0, 3, shape).astype(dtype.numpy)
    return generator.integers(-2, 3, shape).astype(dtype.numpy)


def zeros(dtype: DType, shape: Sequence[int], generator: Generator) -> Array:
    """All zeros."""
    return np.zeros(shape, dtype.numpy)


DRAWS: Mapping[str, Callable[[DType, Sequence[int], Generator], Array]] = {
    "random": random,
    "large": large,
    "tiny": tiny,
    "special": special,
    "ties": ties,
    "zeros": zeros,
}
"""The kinds of draws, by the name that `--draw` takes."""


def _scaled(dtype: DType, powers: Array, shape: Sequence[int], generator: Generator) -> Array:
    with np.errstate(all="ignore"):
        array = np.ldexp(generator.uniform(-1, 1, shape), np.floor(powers).astype(np.int64))
        return np.asarray(array).astype(dtype.numpy)
