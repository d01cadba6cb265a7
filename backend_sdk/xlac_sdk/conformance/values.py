"""The test values: every special number, the neighbours of limits, and random numbers."""

from __future__ import annotations

import itertools
import zlib
from functools import cache
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

# the range of random arguments of each function: beyond it, its result is constant, 0, infinite or
# NaN
_SPREAD = {
    P.EXP: 90, P.EXP2: 130, P.EXPM1: 90, P.TANH: 12, P.SIGMOID: 100, P.ERF: 6, P.GELU: 10,
    P.SIN: 1000, P.COS: 1000, P.POW: 20,
}  # fmt: skip


def special(dtype: DType) -> Array:
    """Zeros, ones, limits, and for floats infinities, NaN and denormals."""
    numpy = dtype.numpy
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        info = np.iinfo(numpy)
        numbers = {
            info.min,
            info.min + 1,
            info.max,
            info.max - 1,
            0,
            1,
            2,
            3,
            7,
            dtype.bits - 1,
            dtype.bits,
            dtype.bits + 1,
        }
        numbers |= {-1, -2, -7} if dtype.is_signed else set()
        return np.array(sorted(x for x in numbers if info.min <= x <= info.max), numpy)
    wide = [0.0, 1.0, 0.5, 1.5, 2.5, 2.0, 3.0, 0.1, 7.75, 100.0, 1e4]
    import ml_dtypes

    limits: Any = ml_dtypes.finfo(numpy)  # type: ignore[no-untyped-call]
    wide += [
        float(limits.max),
        float(limits.tiny),
        float(limits.smallest_subnormal),
        float(limits.eps),
        np.inf,
    ]
    if not dtype.is_half:
        wide += [2.0**31, 2.0**31 - 128, 2.0**63, 2.0**64, 2.0**32, 255.5, 65519.0, 65520.0, 1e-30]
    with np.errstate(all="ignore"):
        return np.array([*wide, *(-x for x in wide), np.nan], np.float64).astype(numpy)


def arguments(primitive: Primitive, dtypes: tuple[DType, ...], count: int) -> tuple[Array, ...]:
    """Operands for a primitive: all pairs of special values, then random ones, padded to a multiple
    of `count`.
    """
    return tuple(array.copy() for array in _arguments(primitive, dtypes, count))


@cache  # the same for every target
def _arguments(primitive: Primitive, dtypes: tuple[DType, ...], count: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(zlib.crc32(f"{primitive.value} {dtypes}".encode()))
    if primitive is P.LOOKUP:
        return tuple(_random(rng, d, count, 1e3) for d in dtypes)
    pools = [special(d) for d in dtypes]
    if len(dtypes) == 3:
        pools = [pool[: 2 if d is DType.BOOL else 9] for pool, d in zip(pools, dtypes, strict=True)]
    if primitive is P.FMA:
        return tuple(_positive(rng, d, count) for d in dtypes)
    crossed = list(itertools.product(*pools))
    columns = [
        np.array(column, d.numpy)
        for column, d in zip(zip(*crossed, strict=True), dtypes, strict=True)
    ]
    extra = -len(columns[0]) % count + count
    if primitive is P.LDEXP:
        # whole exponents: those of f32 and of f64, denormals included, and some more
        spread = 2 * dtypes[0].bits ** 2 // 10
        whole = np.rint(np.where(np.isfinite(columns[1]), columns[1], 0))
        drawn = rng.integers(-spread, spread, extra).astype(dtypes[1].numpy)
        return (
            np.concatenate([columns[0], _random(rng, dtypes[0], extra, 1e3)]),
            np.concatenate([whole, drawn]),
        )
    return tuple(
        np.concatenate([c, _random(rng, d, extra, _SPREAD.get(primitive, 1e3))])
        for c, d in zip(columns, dtypes, strict=True)
    )


def _random(rng: np.random.Generator, dtype: DType, count: int, spread: float) -> Array:
    if dtype is DType.BOOL:
        return rng.random(count) < 0.5
    if dtype.is_integer:
        return rng.integers(0, 256, count * dtype.nbytes).astype(np.uint8).view(dtype.numpy)
    values = np.where(
        rng.random(count) < 0.5, rng.uniform(-spread, spread, count), rng.standard_normal(count)
    )
    return values.astype(dtype.numpy)


def _positive(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Operands for which a rounded product and sum are close to the fused result, as nothing
    cancels.
    """
    return rng.uniform(0.5, 100, count).astype(dtype.numpy)
