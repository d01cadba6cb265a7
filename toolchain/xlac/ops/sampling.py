"""Draws values for conformance samples, and builds lists of samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import static
from xlac.ir.op import Array, Sample
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac_sdk.dtypes import DType

SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    float("inf"),
    float("-inf"),
    float("nan"),
    3.5,
    -2.5,
)
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (1,),
    (0,),
    (7,),
    (3, 5),
    (2, 0, 3),
    (2, 3, 5),
    (2, 1, 3, 5),
    (4999,),
)


def draw_one(kind: str, wanted: Type, rng: np.random.Generator) -> Array:
    """An array of a type, drawn as `Sample.draw` documents."""
    shape, dtype = static(wanted.shape), wanted.dtype
    if dtype is DType.BOOL:
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if dtype.is_integer:
        return _integers(kind, shape, dtype, rng)
    if kind == "special":
        values = rng.choice(np.array(SPECIAL), shape)
    elif kind == "positive":
        values = rng.uniform(0.05, 4.0, shape)
    elif kind == "above_one":
        values = rng.uniform(1.0, 8.0, shape)
    elif kind == "unit":
        values = rng.uniform(-1.0, 1.0, shape)
    elif kind in ("small", "index"):
        values = rng.integers(0, 8, shape).astype(np.float64)
    else:
        values = rng.normal(0.0, 2.0, shape)
    with np.errstate(all="ignore"):
        return numeric.convert(np.asarray(values, np.float64), dtype)


def _integers(kind: str, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
    info = np.iinfo(dtype.numpy)
    low, high = {"small": (0, 7), "positive": (1, 100), "unit": (-1, 1), "index": (-3, 9)}.get(
        kind, (-100, 100)
    )
    if kind == "special":
        edges = np.array(
            [
                info.min,
                info.min + 1,
                0,
                1,
                2,
                7,
                info.max - 1,
                info.max,
                *([-1, -7] if info.min else []),
            ],
            dtype.numpy,
        )
        return np.asarray(rng.choice(edges, shape))
    return np.asarray(
        rng.integers(max(low, info.min), min(high, info.max), shape, endpoint=True).astype(
            dtype.numpy
        )
    )


def draw(sample: Sample, seed: int = 0) -> tuple[Array, ...]:
    """Input values for a sample: `draw` has one range per input, or fewer, of which the last is
    repeated.
    """
    rng = np.random.default_rng(seed)
    kinds = [*sample.draw, *[sample.draw[-1]] * len(sample.inputs)]
    return tuple(
        draw_one(kind, wanted, rng) for kind, wanted in zip(kinds, sample.inputs, strict=False)
    )


def dtypes_and_shapes(
    operands: int,
    accepts: Collection[DType],
    draws: Sequence[str] = ("normal",),
    *,
    attributes: Mapping[str, Any] | None = None,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
) -> list[Sample]:
    """Samples of an op on operands of one type: every dtype once, then every shape, then special
    values.
    """
    known = dict(attributes or {})
    order = [d for d in DType if d in accepts]
    main = order[1] if DType.F32 in order else DType.I32 if DType.I32 in order else order[0]
    samples = [Sample((Type(d, (3, 7)),) * operands, known, tuple(draws)) for d in order]
    samples += [Sample((Type(main, s),) * operands, known, tuple(draws)) for s in shapes]
    edge = [
        d for d in order if d in (DType.F32, DType.F64, DType.F16, DType.I32, DType.I8, DType.U8)
    ]
    return samples + [Sample((Type(d, (11, 13)),) * operands, known, ("special",)) for d in edge]
