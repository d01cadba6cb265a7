"""Sorting, top-k, medians, cumulative extremes and binary search."""

from __future__ import annotations

import math

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.families.math.reductions import position
from xlac.frontends.torch.families.math.special import added
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ir.permutations import Perm, inverse
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType


@aten("sort")
def sort(call: AtenCall, x: Node, dim: int = -1, descending: bool = False) -> tuple[Node, ...]:
    """Sorted values and their indices; stable, which PyTorch does not guarantee."""
    return _sorted(x, dim, descending)


@aten("sort.stable")
def sort_stable(
    call: AtenCall, x: Node, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Node, ...]:
    """Sorted values and their indices; stable."""
    return _sorted(x, dim, descending)


def _sorted(x: Node, dim: int, descending: bool) -> tuple[Node, ...]:
    if not x.shape:
        return x, build.constant(0, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    return build.sort([x, build.iota(x.shape, axis)], axis, descending)


@aten("topk")
def topk(
    call: AtenCall, x: Node, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Node, ...]:
    """The k largest or smallest in sorted order, and their indices: from a full sort."""
    if not x.shape:
        return build.reshape(x, call.shape), build.full(0, call.shape, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    return tuple(build.cut(part, axis, 0, k) for part in _sorted(x, axis, largest))


def _ranked(x: Node, axis: int) -> tuple[Node, ...]:
    """Elements sorted along an axis, and their indices."""
    return build.sort([x, build.iota(x.shape, axis)], axis)


def _single(parts: tuple[Node, ...], axis: int, at: int, keepdim: bool) -> tuple[Node, ...]:
    cuts = [build.cut(part, axis, at, at + 1) for part in parts]
    return tuple(
        c if keepdim else build.reshape(c, (*c.shape[:axis], *c.shape[axis + 1 :])) for c in cuts
    )


@aten("kthvalue")
def kthvalue(
    call: AtenCall, x: Node, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Node, ...]:
    """The k-th smallest along an axis, and its index: from a full sort."""
    if not x.shape:
        return x, build.constant(0, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    return _single(_ranked(x, axis), axis, k - 1, keepdim)


@aten("median.dim")
def median_dim(call: AtenCall, x: Node, dim: int, keepdim: bool = False) -> tuple[Node, ...]:
    """The lower median; NaN if any element is NaN."""
    if not x.shape:
        return x, build.constant(0, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    size = x.shape[axis]
    if not isinstance(size, int):
        raise NotExpressible(f"the median along an axis of unknown size {size}")
    parts = _ranked(x, axis)
    median = _single(parts, axis, (size - 1) // 2, keepdim)
    if not x.type.dtype.is_float:
        return median
    last = _single(parts, axis, size - 1, keepdim)
    first_nan = position(x, "argmax", axis, keepdim)
    none = build.apply1("isnan", last[0])
    return build.select(none, last[0], median[0]), build.select(none, first_nan, median[1])


@aten("median")
def median(call: AtenCall, x: Node) -> Node:
    """The lower median of all elements; NaN if any is."""
    return median_dim(call, build.reshape(x, (x.type.size,)), 0)[0]


@aten("cummax")
def cummax(call: AtenCall, x: Node, dim: int) -> tuple[Node, ...]:
    """The maximum so far and its index, the last among equals."""
    return _running(call, x, dim, "ge")


@aten("cummin")
def cummin(call: AtenCall, x: Node, dim: int) -> tuple[Node, ...]:
    """The minimum so far and its index, the last among equals."""
    return _running(call, x, dim, "le")


def _running(call: AtenCall, x: Node, dim: int, relation: str) -> tuple[Node, ...]:
    """The extreme so far, and its index, the last among equals; a NaN propagates."""
    if not x.shape:
        return x, build.constant(0, DType.I64)
    axis = normal_axis(dim, x.type.rank)
    if x.shape[axis] == 0:
        return x, build.full(0, x.shape, DType.I64)
    wide = build.cast(x, DType.U8) if x.type.dtype is DType.BOOL else x
    rows, back = _rows(wide, axis)
    slice_, where = Type(wide.type.dtype, rows.shape[1:]), Type(DType.I64, rows.shape[1:])

    def step(best: Node, at: Node, row: Node, here: Node) -> tuple[Node, ...]:
        wins = build.compare(row, relation, best)
        if row.type.dtype.is_float:
            wins = build.apply1("or", wins, build.apply1("isnan", row))
            wins = build.apply1(
                "and",
                wins,
                build.apply1(
                    "or",
                    build.apply1("isnan", row),
                    build.apply1("not", build.apply1("isnan", best)),
                ),
            )
        best, at = (
            build.select(wins, row, best),
            build.select(wins, build.broadcast_to(here, at.shape), at),
        )
        return best, at, best, at

    body = build.graph("running", (slice_, where, slice_, Type(DType.I64, ())), step)
    first = build.reshape(build.cut(rows, 0, 0, 1), rows.shape[1:])
    count = build.iota((rows.shape[0],), 0)
    op = Scan(body, rows.shape[0], 2, 2)
    parts = build.results(Node.of(op, first, build.full(0, where.shape, DType.I64), rows, count))[
        2:
    ]
    values, places = (build.transpose(part, back) for part in parts)
    return build.cast(values, x.type.dtype), places


def _rows(x: Node, axis: int) -> tuple[Node, Perm]:
    """x with an axis moved to the front, and the permutation that undoes it."""
    front = [axis, *(a for a in range(x.type.rank) if a != axis)]
    return build.transpose(x, front), inverse(front)


@aten("logcumsumexp")
def logcumsumexp(call: AtenCall, x: Node, dim: int) -> Node:
    """The cumulative logsumexp, without intermediate overflow."""
    if not x.shape or 0 in x.shape:
        return x
    rows, back = _rows(build.compute(x), normal_axis(dim, x.type.rank))
    slice_ = rows.type.with_shape(rows.shape[1:])

    def step(total: Node, row: Node) -> tuple[Node, Node]:
        sums = added(total, row)
        return sums, sums

    op = Scan(build.graph("step", (slice_, slice_), step), rows.shape[0], 1, 1)
    parts = build.results(
        Node.of(
            op, build.like(-math.inf, build.reshape(build.cut(rows, 0, 0, 1), slice_.shape)), rows
        )
    )
    return build.cast(build.transpose(parts[1], back), x.type.dtype)


@aten("searchsorted.Tensor")
def searchsorted(
    call: AtenCall,
    sequence: Node,
    values: Node,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Node | None = None,
) -> Node:
    """The insertion index of each value in the sorted sequence: the number of elements less than it
    (or not greater, if `right`).
    """
    if sorter is not None:
        sequence = build.apply1("take_along_axis", sequence, sorter, axis=sequence.type.rank - 1)
    return _counted(call, sequence, values, right or side == "right")


@aten("searchsorted.Scalar")
def searchsorted_scalar(
    call: AtenCall,
    sequence: Node,
    value: Scalar,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Node | None = None,
) -> Node:
    """The insertion index of a number in a sorted vector."""
    return searchsorted(
        call, sequence, call.node(value, sequence.type.dtype), out_int32, right, side, sorter
    )


@aten("bucketize.Tensor")
def bucketize(
    call: AtenCall, values: Node, boundaries: Node, out_int32: bool = False, right: bool = False
) -> Node:
    """The insertion index of each value among sorted boundaries."""
    return _counted(call, boundaries, values, right)


def _counted(call: AtenCall, sequence: Node, values: Node, right: bool) -> Node:
    """The number of elements below each value; NaN sorts last."""
    dtype = call.promoted(sequence, values)
    outer = () if sequence.type.rank == 1 else sequence.shape[:-1]
    shape = (*values.shape, sequence.shape[-1])
    spread = build.reshape(
        build.cast(sequence, dtype),
        (*outer, *[1] * (values.type.rank - len(outer)), sequence.shape[-1]),
    )
    left, value = (
        build.broadcast_to(spread, shape),
        build.broadcast_to(build.reshape(build.cast(values, dtype), (*values.shape, 1)), shape),
    )
    below = build.compare(left, "le" if right else "lt", value)
    if dtype.is_float:
        lost = build.apply1("isnan", value)
        known = build.apply1("not", build.apply1("isnan", left))
        below = build.apply1("or", below, lost if right else build.apply1("and", lost, known))
    return build.reduce(build.cast(below, call.dtype), "add", len(shape) - 1)
