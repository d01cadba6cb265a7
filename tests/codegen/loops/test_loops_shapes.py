"""Elementwise schedules over dtypes, shapes, strides and targets, against the graph's meaning."""

from __future__ import annotations

import pytest
from loops_harness import MASKED, PLAIN, check_group, constant, group_of, param

from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops.scalar.arithmetic import Add, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Expr, For, Load, LoopKind, Ramp, Store
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
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


def _gathers(group: Group) -> int:
    """The loads of lanes that are further apart than a vector."""
    (launching,) = lower(group, MASKED, "kernel").launches
    found: list[Expr] = []

    def visit(node: Expr) -> Expr:
        found.append(node)
        return node

    KernelRewriter(visit).block(launching.kernel.body)
    return sum(
        isinstance(node, Load) and isinstance(node.index, Ramp) and abs(node.index.stride) > 1
        for node in found
    )


@pytest.mark.parametrize("shape", [(32, 32), (33, 47), (3, 64, 48)])
def test_what_is_computed_of_transposed_operands_turns_them_around_in_registers(
    shape: tuple[int, ...],
) -> None:
    perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    turned = (*shape[:-2], shape[-1], shape[-2])
    x, y, z = param("x", shape), param("y", turned), param("z", shape)
    of_x, of_z = Node.of(Transpose(perm), x), Node.of(Transpose(perm), z)
    halved = Node.of(Mul(), of_x, Node.of(Broadcast(turned, ()), constant(0.5)))
    for made in (
        [halved],
        [Node.of(Sub(), Node.of(Exp(), of_x), Node.of(Mul(), y, of_z))],
        [Node.of(Add(), halved, y), Node.of(Mul(), of_z, of_x)],
    ):
        group = group_of(Kind.ELEMENTWISE, *made)
        check_group(group)
        if all(size % 16 == 0 for size in shape[-2:]):
            assert not _gathers(group)


def test_a_stencil_along_columns_reads_squares_that_overlap() -> None:
    x = param("x", (50, 64))
    rows = [Node.of(Slice((n, 0), (n + 48, 64), (1, 1)), x) for n in range(3)]
    joined = Node.of(Add(), Node.of(Add(), rows[0], rows[1]), rows[2])
    group = group_of(
        Kind.ELEMENTWISE, Node.of(Mul(), Node.of(Transpose((1, 0)), joined), param("y", (64, 48)))
    )
    check_group(group)
    assert not _gathers(group)


def test_every_second_column_is_turned_around_too() -> None:
    x = param("x", (64, 96))
    columns = [Node.of(Slice((0, n), (64, 96), (1, 2)), x) for n in range(2)]
    for made in (columns[1], Node.of(Mul(), columns[0], columns[1])):
        group = group_of(Kind.ELEMENTWISE, Node.of(Transpose((1, 0)), made))
        check_group(group)
        assert not _gathers(group)


def test_a_reshaped_concatenation_is_written_by_its_pieces() -> None:
    x, y = param("x", (32, 48)), param("y", (32, 48))
    pieces = [Node.of(Reshape((48, 32, 1)), Node.of(Transpose((1, 0)), part)) for part in (x, y)]
    woven = Node.of(Reshape((48, 64)), Node.of(Concat(2), *pieces))
    group = group_of(Kind.ELEMENTWISE, woven)
    check_group(group)
    assert not _gathers(group)
    check_group(group_of(Kind.ELEMENTWISE, Node.of(Reshape((96, 32)), Node.of(Concat(0), x, y))))


@pytest.mark.parametrize("shape", [(4, 10, 12), (2, 40, 33), (6, 72, 9), (3, 64, 64)])
@pytest.mark.parametrize("count", [4, 20])
def test_nests_side_by_side_are_not_parallel(shape: tuple[int, int, int], count: int) -> None:
    """Of several nests in a kernel, also small ones whose blocks are cut at the edges."""
    x, y = param("x", shape), param("y", (8, 9))
    turned = Node.of(Transpose((0, 2, 1)), x)
    for _ in range(count):
        turned = Node.of(Add(), Node.of(Mul(), turned, turned), turned)
    check_group(group_of(Kind.ELEMENTWISE, turned, Node.of(Add(), y, y)))


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
    heavy: list[Node] = [param(name, (20, 10, 2)) for name in "xy"]
    for _ in range(30):
        heavy = [Node.of(Exp(), node) for node in heavy]
    scheduled = check_group(group_of(Kind.ELEMENTWISE, Node.of(Concat(2), *heavy)))
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
        Target("t", vector_bytes=64).with_facts(l3_bytes=1 << 12),
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
    assert max(load.lanes for load in found) == 4 * 8  # four vectors as one


def test_an_operand_that_is_read_elsewhere_may_not_be_overwritten() -> None:
    x = param("x", (8, 8))
    safe = lower(group_of(Kind.ELEMENTWISE, Node.of(Exp(), x)), MASKED, "k")
    assert len(safe.in_place) == 1
    unsafe = lower(
        group_of(Kind.ELEMENTWISE, Node.of(Add(), x, Node.of(Transpose((1, 0)), x))), MASKED, "k"
    )
    assert not unsafe.in_place
