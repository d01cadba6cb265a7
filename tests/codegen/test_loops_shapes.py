"""Elementwise, row and reduction schedules over dtypes, shapes, strides and targets, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import (
    MASKED,
    PLAIN,
    SCALAR,
    TARGETS,
    check_group,
    constant,
    graph_of,
    group_of,
    param,
)

from xlac.codegen.claims import kind_taken
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Graph, Node
from xlac.ops import build, numeric
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Exp, Max, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import For, Load, LoopKind, Store
from xlac_sdk.target import Target

SHAPES = [
    (),
    (1,),
    (7,),
    (16,),
    (1000,),
    (3, 5),
    (5, 64),
    (2, 3, 17),
    (1, 9, 1),
    (4, 1, 33),
    (70, 71),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pointwise(shape: tuple[int, ...]) -> None:
    x, y = param("x", shape), param("y", shape)
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Add(), x, Node.of(Mul(), x, y))))


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_pointwise_dtypes(dtype: DType) -> None:
    x, y = param("x", (5, 13), dtype), param("y", (5, 13), dtype)
    which = Node.of(Compare("ne"), x, y)
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Select(), which, x, y), which))


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1)], ids=str)
def test_transposed_operands(perm: tuple[int, ...]) -> None:
    x = param("x", (9, 40, 37))
    moved = Node.of(Transpose(perm), x)
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Add(), moved, param("y", moved.shape))))  # type: ignore[arg-type]


def test_transposed_tiles_are_cut_at_both_edges() -> None:
    x = param("x", (67, 71))
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Transpose((1, 0)), x)))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.I8, DType.BOOL], ids=str)
@pytest.mark.parametrize("shape", [(48, 80), (2, 64, 8, 8), (96, 36)], ids=str)
def test_transpositions_by_squares(shape: tuple[int, ...], dtype: DType) -> None:
    """Whole squares of vectors, blocks that the edges cut, axes that are one, and 36 columns, which
    are no whole vectors.
    """
    x = param("x", shape, dtype)
    check_group(
        group_of(
            Kind.ELEMENTWISE, Node.of(Transpose((0, 2, 3, 1) if len(shape) == 4 else (1, 0)), x)
        )
    )


def test_a_transposition_in_vectors_turns_squares_around_in_registers() -> None:
    group = group_of(Kind.ELEMENTWISE, Node.of(Transpose((1, 0)), param("x", (64, 96))))
    (launching,) = lower(group, MASKED, "kernel").launches
    assert "Shuffle(" in repr(launching.kernel.body)


def test_concatenations_and_paddings() -> None:
    x, y = param("x", (4, 11)), param("y", (4, 6))
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Concat(1), Node.of(Exp(), x), y, x)))
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Concat(0), x, x)))
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Pad((1, 2), (0, 3), (1, 0)), x, constant(7.0))))
    joined = Node.of(Concat(1), x, y)
    check_group(group_of(Kind.ELEMENTWISE, joined, Node.of(Exp(), joined)))


def test_slices_with_steps_and_backwards() -> None:
    x = param("x", (12, 35))
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Slice((1, 34), (11, -1), (3, -2)), x)))


def test_outputs_of_several_shapes_share_a_kernel() -> None:
    x, y = param("x", (6, 7)), param("y", (19,))
    scheduled = check_group(group_of(Kind.ELEMENTWISE, Node.of(Exp(), x), Node.of(Exp(), y)))
    assert len(scheduled.launches) == 1


def test_nests_that_are_split_over_threads_have_kernels_of_their_own() -> None:
    """What one element costs decides, not how many operations the graph has."""
    x = param("x", (20, 20, 1))
    heavy: Node = x
    for _ in range(30):
        heavy = Node.of(Exp(), heavy)
    scheduled = check_group(
        group_of(Kind.ELEMENTWISE, Node.of(Concat(2), heavy, Node.of(Exp(), heavy)))
    )
    assert len(scheduled.launches) == 2


def test_no_launch_for_nothing() -> None:
    group = group_of(Kind.ELEMENTWISE, Node.of(Exp(), param("x", (0, 5))))
    assert not lower(group, MASKED, "k").launches


def loops(group: Group, target: Target) -> list[For]:
    (launch,) = lower(group, target, "k").launches
    return [s for s in launch.kernel.body if isinstance(s, For)]


def test_large_outputs_are_split_over_threads() -> None:
    x = param("x", (1 << 20,))
    (loop,) = loops(group_of(Kind.ELEMENTWISE, Node.of(Exp(), x)), MASKED)
    assert loop.kind is LoopKind.PARALLEL
    check_group(
        group_of(Kind.ELEMENTWISE, Node.of(Add(), param("y", (300_001,)), param("z", (300_001,)))),
        (PLAIN, MASKED),
    )


def test_outputs_beyond_the_cache_are_streamed() -> None:
    x = param("x", (1 << 16,))
    (launch,) = lower(
        group_of(Kind.ELEMENTWISE, Node.of(Exp(), x)),
        Target("t", vector_bytes=64, l3_bytes=1 << 12),
        "k",
    ).launches
    loop = launch.kernel.body[0]
    found: list[Store] = []
    stack = [loop]
    while stack:
        one = stack.pop()
        found += [s for s in getattr(one, "body", ()) if isinstance(s, Store)]
        stack += [s for s in getattr(one, "body", ()) if isinstance(s, For)]
    assert found and all(s.streaming for s in found if s.value.lanes > 1)


def test_contiguous_operands_are_read_by_vectors_through_reshapes() -> None:
    """Collapsed axes: no gather is left, whatever the shapes between."""
    x = param("x", (12, 35))
    y = Node.of(Exp(), Node.of(Reshape((7, 60)), Node.of(Exp(), Node.of(Reshape((35, 12)), x))))
    (launch,) = lower(group_of(Kind.ELEMENTWISE, y), PLAIN, "k").launches

    def loads(stmts: tuple[object, ...]) -> list[Load]:
        return [s.value for s in stmts if isinstance(getattr(s, "value", None), Load)] + [  # type: ignore[attr-defined]
            load for s in stmts if isinstance(s, For) for load in loads(s.body)
        ]

    found = loads(launch.kernel.body)
    assert found and all(load.index.lanes == 1 for load in found)
    assert max(load.lanes for load in found) == 8


def test_an_operand_that_is_read_elsewhere_may_not_be_overwritten() -> None:
    x = param("x", (8, 8))
    safe = lower(group_of(Kind.ELEMENTWISE, Node.of(Exp(), x)), MASKED, "k")
    assert len(safe.in_place) == 1
    unsafe = lower(
        group_of(Kind.ELEMENTWISE, Node.of(Add(), x, Node.of(Transpose((1, 0)), x))), MASKED, "k"
    )
    assert not unsafe.in_place


# ---- reductions --------------------------------------------------------------------------------

REDUCED = [
    ((5,), (0,)), ((1,), (0,)), ((3, 40), (1,)), ((3, 40), (0,)), ((40, 3), (0,)), ((2, 3, 17), (0, 2)), ((2, 3, 17), (1,)),
    ((2, 3, 17), (0, 1)), ((2, 3, 17), (0, 1, 2)), ((4, 1, 9), (1,)), ((4, 1, 9), (1, 2)), ((1, 300), (1,)), ((130, 70), (0,)),
    ((3, 0), (1,)), ((0, 3), (0,)), ((2, 5, 3, 4), (1, 3)), ((6, 5), ()),
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


# ---- rows --------------------------------------------------------------------------------------


def softmax(x: Node, axis: int = -1) -> Node:
    return graph_of(build.apply("softmax", x, axis=axis)).outputs["o0"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shape", [(3, 1), (3, 5), (40, 10), (2, 3, 128), (5, 133), (2, 9000), (1, 40_000)], ids=str
)
def test_softmax_over_short_and_long_rows(shape: tuple[int, ...]) -> None:
    """From rows shorter than a vector to rows that do not fit the stack: then the output keeps the
    powers.
    """
    check_group(group_of(Kind.ROWS, softmax(param("x", shape))), rtol=1e-4)


@pytest.mark.parametrize("shape, axis", [((33, 70), 0), ((3, 17, 20), 1)], ids=str)
def test_softmax_over_columns(shape: tuple[int, ...], axis: int) -> None:
    check_group(group_of(Kind.REDUCE, softmax(param("x", shape), axis)), rtol=1e-4)


def test_rows_with_results_and_values_of_every_stage() -> None:
    x, y = param("x", (6, 50)), param("y", (50,))
    before = Node.of(Add(), x, Node.of(Broadcast((6, 50), (1,)), y))
    top = Node.of(Reduce((1,), "max"), before)
    power = Node.of(Exp(), Node.of(Sub(), before, Node.of(Broadcast((6, 50), (0,)), top)))
    total = Node.of(Reduce((1,), "add"), power)
    result = Node.of(Mul(), power, Node.of(Broadcast((6, 50), (0,)), Node.of(Max(), total, top)))
    group = group_of(
        Kind.ROWS,
        before,
        total,
        Node.of(Reshape((6, 1)), top),
        result,
        Node.of(Cast(DType.F16), result),
    )
    check_group(group, rtol=1e-4)


def test_powers_are_computed_once() -> None:
    (launch,) = lower(group_of(Kind.ROWS, softmax(param("x", (64, 256)))), SCALAR, "k").launches
    from xlac_sdk.kernel_ir.text import show

    assert show(launch.kernel).count("exp(") == 1


def test_kernels_say_what_they_cost_and_where_they_come_from() -> None:
    x = param("x", (64, 256))
    (launch,) = lower(group_of(Kind.ROWS, softmax(x)), MASKED, "k").launches
    assert launch.kernel.name == "k"
    assert launch.kernel.work.bytes == 2 * 64 * 256 * 4
    assert launch.kernel.parallel is not None


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
@pytest.mark.sampled(6)
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
