"""Canonical forms of dot products: no transposes around them, no unit axes, neighbouring axes
merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.view import Reshape, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.logic import holds
from xlac.passes.rules.views import integers, transpose
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def dot(
    p: Parameter,
    lhs: Ints,
    rhs: Ints,
    contract: tuple[Ints, Ints],
    batch: tuple[Ints, Ints] = ((), ()),
) -> Node:
    """An example: a product of parameters of these shapes."""
    return Node.of(Dot(*batch, *contract), p(*lhs), p(*rhs))


@rule(
    Dot,
    examples=[
        lambda p: Node.of(Dot((), (), (1,), (0,)), transpose(p(3, 4), 1, 0), p(3, 5)),
        lambda p: Node.of(
            Dot((0,), (1,), (3,), (2,)),
            transpose(p(2, 3, 4, 5), 3, 1, 0, 2),
            transpose(p(4, 6, 5), 1, 2, 0),
        ),
    ],
)
def dot_transpose(node: Node, site: Site) -> Node | None:
    """Removes transposes of a dot product's operands by renumbering its axes."""
    assert isinstance(node.op, Dot)
    op, (lhs, rhs) = node.op, node.inputs
    if not isinstance(lhs.op, Transpose) and not isinstance(rhs.op, Transpose):
        return None
    left, right = (
        x.op.perm if isinstance(x.op, Transpose) else tuple(range(x.type.rank)) for x in (lhs, rhs)
    )
    a, b = (x.inputs[0] if isinstance(x.op, Transpose) else x for x in (lhs, rhs))
    moved = Dot(
        tuple(left[i] for i in op.batch_lhs),
        tuple(right[i] for i in op.batch_rhs),
        tuple(left[i] for i in op.contract_lhs),
        tuple(right[i] for i in op.contract_rhs),
        op.out_dtype,
    )
    free = [
        [perm[i] for i in axes]
        for perm, axes in zip((left, right), op.free(lhs.type.rank, rhs.type.rank), strict=True)
    ]
    result = site.make(moved, a, b)
    return site.make(Transpose(_order(len(op.batch_lhs), free)), result)


def _order(batch: int, free: list[list[int]]) -> Ints:
    """The transpose after the product that restores the order of its free axes, which come
    sorted.
    """
    order = list(range(batch))
    for axes in free:
        start = len(order)
        order += [start + sorted(axes).index(axis) for axis in axes]
    return tuple(order)


@dataclass(frozen=True, slots=True)
class AxisRole:
    """The role of an operand's axis: "batch" or "contract" with its number, or "free"."""

    kind: str
    number: int = -1


def roles(rank: int, batch: Ints, contract: Ints) -> list[AxisRole]:
    """The role of each axis of an operand."""
    axis_roles = [AxisRole("free")] * rank
    for kind, axes in (("batch", batch), ("contract", contract)):
        for number, axis in enumerate(axes):
            axis_roles[axis] = AxisRole(kind, number)
    return axis_roles


@rule(
    Dot,
    examples=[
        lambda p: dot(p, (2, 3, 4), (4, 5), ((2,), (0,))),
        lambda p: dot(p, (2, 3, 4), (3, 4, 5), ((1, 2), (0, 1))),
        lambda p: dot(p, (2, 3, 4, 5), (2, 3, 5, 6), ((3,), (2,)), ((0, 1), (0, 1))),
        lambda p: dot(p, (1, 3, 4), (1, 4, 5), ((2,), (1,)), ((0,), (0,))),
        lambda p: dot(p, (3, 1), (1, 5), ((1,), (0,))),
        lambda p: dot(p, (2, 3, 4, 7), (7, 6, 5), ((3,), (0,))),
        lambda p: dot(p, (3, 1, 4), (4,), ((2,), (0,))),
    ],
)
def merge_dot_axes(node: Node, site: Site) -> Node | None:
    """Drops unit axes, and merges adjacent axes with the same role."""
    assert isinstance(node.op, Dot)
    op, (lhs, rhs) = node.op, node.inputs
    left_shape, right_shape, shape = integers(lhs.shape), integers(rhs.shape), integers(node.shape)
    if left_shape is None or right_shape is None or shape is None:
        return None
    left, right = (
        roles(lhs.type.rank, op.batch_lhs, op.contract_lhs),
        roles(rhs.type.rank, op.batch_rhs, op.contract_rhs),
    )
    left_runs = _runs(left, left_shape, right, right_shape)
    right_runs = _runs(right, right_shape, left, left_shape)
    if len(left_runs) == lhs.type.rank and len(right_runs) == rhs.type.rank:
        return None
    numbers: dict[str, list[list[int]]] = {"batch": [[], []], "contract": [[], []]}
    for side, (runs, kinds) in enumerate(((left_runs, left), (right_runs, right))):
        for kind, places in numbers.items():
            here = [
                (kinds[run[0]].number, place)
                for place, run in enumerate(runs)
                if kinds[run[0]].kind == kind
            ]
            places[side] = [place for _, place in sorted(here)]
    a = site.make(Reshape(_sizes(left_shape, left_runs)), lhs)
    b = site.make(Reshape(_sizes(right_shape, right_runs)), rhs)
    batch, contract = numbers["batch"], numbers["contract"]
    merged = Dot(
        tuple(batch[0]), tuple(batch[1]), tuple(contract[0]), tuple(contract[1]), op.out_dtype
    )
    return site.make(Reshape(shape), site.make(merged, a, b))


def _runs(
    mine: list[AxisRole], shape: Ints, other: list[AxisRole], other_shape: Ints
) -> list[list[int]]:
    """The axes of an operand without units, grouped into those that may be merged."""
    kept = [role for role, size in zip(other, other_shape, strict=True) if size != 1]
    runs: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        before = mine[runs[-1][-1]] if runs else None
        joins = before is not None and before.kind == mine[axis].kind
        if joins and mine[axis].kind != "free":
            assert before is not None
            place = kept.index(before)
            joins = place + 1 < len(kept) and kept[place + 1] == mine[axis]
            joins = joins and (
                mine[axis].kind != "batch" or _follows(mine, before, mine[axis], shape)
            )
        if joins:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _follows(mine: list[AxisRole], before: AxisRole, after: AxisRole, shape: Ints) -> bool:
    """Whether only units lie between two batch axes in the result, where batch axes are in order of
    their numbers.
    """
    between = [r for r, size in zip(mine, shape, strict=True) if r.kind == "batch" and size != 1]
    ordered = sorted(r.number for r in between)
    return ordered.index(after.number) == ordered.index(before.number) + 1


def _sizes(shape: Ints, runs: list[list[int]]) -> Ints:
    return tuple(int(np.prod([shape[a] for a in run])) for run in runs)


def _widened(p: Parameter) -> Node:
    a, b = (Node.of(Cast(DType.F32), p(*shape, dtype=DType.F16)) for shape in ((3, 4), (4, 5)))
    return Node.of(Dot((), (), (1,), (0,)), a, b)


@rule(Dot, examples=[_widened])
def dot_widened(node: Node, site: Site) -> Node | None:
    """A product of half precision operands widened to f32 becomes one of the operands with sums in
    f32, which reads half as much.
    """
    assert isinstance(node.op, Dot)
    a, b = node.inputs
    if not (isinstance(a.op, Cast) and isinstance(b.op, Cast)) or node.op.out_dtype not in (
        None,
        DType.F32,
    ):
        return None
    x, y = a.inputs[0], b.inputs[0]
    narrow = x.type.dtype
    if (
        narrow is not y.type.dtype
        or not narrow.is_half
        or a.type.dtype is not DType.F32
        or not holds(DType.F32, narrow)
    ):
        return None
    op = node.op
    return site.make(
        Dot(op.batch_lhs, op.batch_rhs, op.contract_lhs, op.contract_rhs, DType.F32), x, y
    )


CONTRACTIONS = (dot_transpose, merge_dot_axes, dot_widened)
