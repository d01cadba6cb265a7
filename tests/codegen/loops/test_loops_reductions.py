"""Schedules of reductions over dtypes, shapes and targets, against the graph's meaning."""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import MASKED, SCALAR, TARGETS, check_group, constant, group_of, param

from xlac.codegen.claims import kind_taken
from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Graph, Node
from xlac.ops import build, numeric
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.exponential import Exp
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

REDUCED = [
    ((5,), (0,)), ((1,), (0,)), ((3, 40), (1,)), ((3, 40), (0,)), ((40, 3), (0,)),
    ((2, 3, 17), (0, 2)), ((2, 3, 17), (1,)), ((2, 3, 17), (0, 1)), ((2, 3, 17), (0, 1, 2)),
    ((4, 1, 9), (1,)), ((4, 1, 9), (1, 2)), ((1, 300), (1,)), ((130, 70), (0,)), ((3, 0), (1,)),
    ((0, 3), (0,)), ((2, 5, 3, 4), (1, 3)), ((6, 5), ()),
]  # fmt: skip


@pytest.mark.parametrize("shape, axes", REDUCED, ids=str)
def test_reductions(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = param("x", shape)
    outputs = [Node.of(Reduce(axes, c), x) for c in ("add", "max")]
    check_group(group_of(Kind.REDUCE, *outputs))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_reduced_dtypes(dtype: DType, axis: int) -> None:
    x = param("x", (19, 37), dtype)
    named = ("and", "or", "xor") if dtype is DType.BOOL else ("add", "max", "min", "mul")
    if dtype.is_integer:
        named = (*named, "and", "xor")
    if dtype.is_half:
        named = ("add", "max", "min")
    outputs = [Node.of(Reduce((axis,), c), x) for c in named]
    check_group(group_of(Kind.ROWS, *outputs))


@pytest.mark.parametrize("combine", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_of_not_a_number(combine: str, axis: int) -> None:
    x = param("x", (20, 45))
    values = np.random.default_rng(0).standard_normal((20, 45)).astype(np.float32)
    values[3, 7], values[5], values[6, :], values[:, 2] = np.nan, np.inf, -np.inf, -0.0
    check_group(group_of(Kind.ROWS, Node.of(Reduce((axis,), combine), x)), feeds={x: values})


def test_halves_are_summed_in_single_precision() -> None:
    x = param("x", (4096,), DType.F16)
    check_group(
        group_of(Kind.ROWS, Node.of(Reduce((0,), "add"), x)),
        feeds={x: np.full(4096, 1.0, np.float16)},
    )


def _pairs(shape: tuple[int, ...], axis: int) -> tuple[Node, ...]:
    """The largest value and where it is: a reducer with a body of two values."""
    value, place, value2, place2 = (
        param(n, (), d)
        for n, d in (("a", DType.F32), ("i", DType.I32), ("b", DType.F32), ("j", DType.I32))
    )
    first = Node.of(Compare("ge"), value, value2)
    outputs = {
        "v": Node.of(Select(), first, value, value2),
        "i": Node.of(Select(), first, place, place2),
    }
    body = Graph("largest", (value, place, value2, place2), outputs)
    x, count = param("x", shape), param("n", shape, DType.I32)
    both = Node.of(
        Reduce((axis,), "body", body), x, count, constant(-np.inf), constant(-1, DType.I32)
    )
    return build.results(both)


@pytest.mark.parametrize("axis", [0, 1])
def test_reducers_with_a_body(axis: int) -> None:
    check_group(group_of(Kind.ROWS, *_pairs((6, 21), axis)))


def test_a_body_that_is_not_commutative_runs_in_order() -> None:
    old, new = param("old", ()), param("new", ())
    body = Graph("last", (old, new), {"r": Node.of(Add(), Node.of(Sub(), old, old), new)})
    x = param("x", (5, 70))
    check_group(group_of(Kind.ROWS, Node.of(Reduce((1,), "body", body), x, constant(3.0))))


def test_the_identity_of_every_combination() -> None:
    for combine in numeric.COMBINE:
        dtype = DType.I32
        x = param("x", (4, 0), dtype)
        check_group(group_of(Kind.ROWS, Node.of(Reduce((1,), combine), x)), (SCALAR, MASKED))


def test_large_reductions_on_every_target() -> None:
    x = param("x", (3, 70_001))
    check_group(
        group_of(Kind.ROWS, Node.of(Reduce((0, 1), "add"), Node.of(Mul(), x, x))), TARGETS[1:3]
    )


SPLIT = [
    ((300_001,), (0,)),
    ((3, 70_001), (1,)),
    ((70_001, 3), (0,)),
    ((64, 3, 2000), (0, 2)),
    ((2, 100_000, 2), (1,)),
    ((1 << 19,), (0,)),
]


@pytest.mark.parametrize("shape, axes", SPLIT, ids=str)
def test_fusion_leads_few_results_of_many_elements_to_threads(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = param("x", shape)
    total = Node.of(Reduce(axes, "add"), Node.of(Mul(), x, x))
    threaded = Target("threads", vector_bytes=64, masked=True, threads=2)
    (group,) = partition(
        Graph("total", (x,), {"total": total}), threaded, kind_taken=kind_taken
    ).groups
    first, second = lower(group, threaded, "k").launches
    assert first.kernel.parallel is not None and second.kernel.parallel is None


@pytest.mark.parametrize("shape, axes", SPLIT, ids=str)
@pytest.mark.sampled(12)
def test_few_results_of_many_elements_are_split_over_threads(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = param("x", shape)
    square = Node.of(Reduce(axes, "add"), Node.of(Mul(), x, x))
    group = group_of(Kind.REDUCE, Node.of(Exp(), Node.of(Reduce(axes, "max"), x)), square)
    threaded = Target("threads", vector_bytes=64, masked=True, threads=4)
    scheduled = check_group(
        group, (Target("plain", vector_bytes=32, threads=2), threaded), exact=True
    )
    assert len(scheduled.launches) == 2
    assert scheduled.launches[0].kernel.parallel is not None
    # the order of a sum is that of any number of threads
    assert len(lower(group, Target("one", vector_bytes=64), "k").launches) == 2
