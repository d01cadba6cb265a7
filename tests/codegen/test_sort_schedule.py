"""Sort's kernels against its meaning; those of the first elements whatever the order of a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contraction_harness import group, param
from numpy.typing import NDArray
from order_harness import MASKED, PLAIN, SCALAR, check, check_sample, label

from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Kind
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops.reduction.order import Sort
from xlac.ops.scalar import arithmetic, comparison
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

F32, I32 = DType.F32, DType.I32


@pytest.mark.parametrize(
    "sample", [s for s in Sort.samples() if s.inputs[0].size < 1000], ids=label
)
@pytest.mark.sampled(12)
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


Line = Callable[[int, np.random.Generator], NDArray[Any]]

LINES: dict[str, Line] = {
    "random": lambda n, rng: rng.standard_normal(n),
    "ascending": lambda n, rng: np.arange(n),
    "descending": lambda n, rng: -np.arange(n),
    "constant": lambda n, rng: np.zeros(n),
    "few": lambda n, rng: rng.integers(0, 3, n),
    "one column": lambda n, rng: np.where(np.arange(n) % 7 == 3, 100.0 + np.arange(n) % 5, 0),
    "zeros": lambda n, rng: np.where(np.arange(n) % 2, 0.0, -0.0),
    "no numbers": lambda n, rng: np.where(np.arange(n) % 50 < 25, np.nan, 1),
}


def template(op: Sort, shape: tuple[int, ...], target: Target, dtype: DType = DType.F32) -> str:
    node = Node.of(op, param("x", Type(dtype, shape), "input"))
    decisions = Decisions("k")
    lower(group(Kind.SORT, node), target, "k", decisions)
    return decisions.settled["main"].template


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", LINES)
@pytest.mark.sampled(8)
def test_lines(name: str, descending: bool) -> None:
    """Sorted and repeated lines too: with 7 groups, those of one column need the exact bound."""
    op = Sort(axis=1, descending=descending, kept=5)
    types = (Type(DType.F32, (2, 700)), Type(DType.I64, (2, 700)))

    def draw(type_: Type, number: int, rng: np.random.Generator) -> NDArray[Any]:
        if number:
            return np.broadcast_to(np.arange(700), (2, 700)).astype(np.int64)
        return np.stack([LINES[name](700, rng) for _ in range(2)]).astype(np.float32)

    assert template(op, (2, 700), MASKED) == "selection"
    check(op, types, draw=draw, targets=(SCALAR, PLAIN, MASKED))


@pytest.mark.parametrize("kept", [1, 2, 40, 700])
def test_how_many(kept: int) -> None:
    """More than are put in order by counting, too: those are merged."""
    check(Sort(axis=0, kept=kept), [Type(DType.I32, (1000, 1))], targets=(SCALAR, MASKED))


@pytest.mark.parametrize(
    ("shape", "op", "wanted"),
    [
        ((4, 64), Sort(axis=1), "rank_sort"),
        ((4, 1000), Sort(axis=1), "rank_sort"),
        ((4, 64), Sort(axis=1, kept=8), "rank_sort"),
        ((4, 1000), Sort(axis=1, kept=8), "selection"),
        ((4, 1000), Sort(axis=1, kept=990), "rank_sort"),
        ((4, 100000), Sort(axis=1), "merge_sort"),
        ((4, 100000), Sort(axis=1, kept=90000), "merge_sort"),
        ((100000, 4), Sort(axis=0, kept=40), "selection"),
    ],
)
def test_what_is_chosen(shape: tuple[int, ...], op: Sort, wanted: str) -> None:
    assert template(op, shape, MASKED) == wanted
