"""Sort's kernels against its meaning."""

from __future__ import annotations

import numpy as np
import pytest
from order_harness import check, check_sample, label

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops.reduction.order import Sort
from xlac.ops.scalar import arithmetic, comparison
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType

F32, I32 = DType.F32, DType.I32


@pytest.mark.parametrize(
    "sample", [s for s in Sort.samples() if s.inputs[0].size < 1000], ids=label
)
def test_samples(sample: Sample) -> None:
    check_sample(Sort, sample)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("keys", [1, 2])
def test_ties_keep_their_order(keys: int, descending: bool) -> None:
    """The third operand counts, so any change of order among equal keys shows."""
    types = (Type(F32, (2, 37)), Type(I32, (2, 37)), Type(I32, (2, 37)))

    def draw(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        if number == 2:
            return np.broadcast_to(np.arange(37, dtype=np.int32), (2, 37))
        found = rng.integers(0, 3, type_.shape).astype(type_.dtype.numpy)
        return np.where(rng.random(type_.shape) < 0.2, np.nan, found) if number == 0 else found

    check(
        Sort(axis=1, keys=keys, descending=descending),
        types,
        draw=lambda t, k, r: draw(t, k, r).astype(t.dtype.numpy),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 31, 32, 33, 100])
def test_lengths(count: int) -> None:
    check(Sort(axis=0), [Type(F32, (count,))])


def test_body_compares() -> None:
    """By the absolute value of the first operand, largest first."""
    names = [
        Node.of(Param(n, Type(t), "input"))
        for n, t in (("x0", F32), ("y0", F32), ("x1", I32), ("y1", I32))
    ]
    squares = [Node.of(arithmetic.Mul(), n, n) for n in names[:2]]
    body = Graph(
        "before", tuple(names), {"out": Node.of(comparison.Compare(direction="gt"), *squares)}
    )
    op = Sort(axis=1, body=body)

    def draw(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(-9, 9, type_.shape).astype(type_.dtype.numpy)

    check(op, [Type(F32, (3, 14)), Type(I32, (3, 14))], draw=draw)
