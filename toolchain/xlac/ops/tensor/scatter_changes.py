"""How what is scattered changes: by maxima and products, and back to the updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlac.ir.dims import Shape, volume
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.types import Type
from xlac.ops.tensor.index import along_vector, clamped_starts
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.ops.tensor.scatter import Scatter


def scattered_change(
    op: Scatter, node: Node, tangents: Sequence[Node | None]
) -> Sequence[Node | None] | None:
    """Of a maximum: the mean change of those that are it. Of a product: each factor's change
    times all others, where zeros are counted rather than divided by.
    """
    if op.combine not in ("mul", "max", "min"):
        return None
    (x, indices, updates), (t, _, u) = node.inputs, tangents
    t, u = t or zeros(x.type), u or zeros(updates.type)
    sums = replace(op, combine="add")
    if op.combine != "mul":
        own = apply("compare", x, node, direction="eq")
        there = at_places(op, node, indices, updates.type)
        theirs = apply("compare", updates, there, direction="eq")
        dtype = x.type.dtype
        count = Node.of(
            sums, apply("cast", own, dtype=dtype), indices, apply("cast", theirs, dtype=dtype)
        )
        total = Node.of(
            sums,
            apply("select", own, t, zeros(x.type)),
            indices,
            apply("select", theirs, u, zeros(updates.type)),
        )
        return [apply("div", total, count)]
    flags = [apply("compare", n, zeros(n.type), direction="eq") for n in (x, updates)]
    ones = [apply("cast", flag, dtype=x.type.dtype) for flag in flags]
    factors = [
        apply("select", flag, one, n)
        for flag, one, n in zip(flags, ones, (x, updates), strict=True)
    ]
    count = Node.of(sums, ones[0], indices, ones[1])
    whole = Node.of(op, factors[0], indices, factors[1])

    def others(number: int, count: Node, whole: Node) -> Node:
        rest = apply("compare", count, ones[number], direction="eq")  # no other factor is 0
        return apply("select", rest, apply("div", whole, factors[number]), zeros(whole.type))

    here = apply("mul", t, others(0, count, whole))
    count, whole = (at_places(op, n, indices, updates.type) for n in (count, whole))
    return [Node.of(sums, here, indices, apply("mul", u, others(1, count, whole)))]


def at_places(op: Scatter, x: Node, indices: Node, updates: Type) -> Node:
    """The element of x that each update meets; 0 for one that is dropped."""
    sizes = op.window_sizes(x.type, updates)
    if 0 in sizes or 0 in x.shape:
        return zeros(Type(x.type.dtype, updates.shape))
    mapped = op.scatter_dims_to_operand_dims
    # a border as wide as the window: where an update lies outside, it reads zeros
    border = tuple(sizes[axis] if axis in mapped else 0 for axis in range(x.type.rank))
    padded = apply(
        "pad", x, zeros(x.type.with_shape(())), low=border, high=border, interior=(0,) * x.type.rank
    )
    starts = clamped_starts(
        indices, op.index_vector_dim, [x.shape[a] for a in mapped], [-1 * sizes[a] for a in mapped]
    )
    starts = apply(
        "add", starts, along_vector(indices, op.index_vector_dim, [sizes[a] for a in mapped])
    )
    return apply(
        "gather",
        padded,
        starts,
        offset_dims=op.update_window_dims,
        collapsed_slice_dims=op.inserted_window_dims,
        operand_batching_dims=op.input_batching_dims,
        start_indices_batching_dims=op.scatter_indices_batching_dims,
        start_index_map=mapped,
        index_vector_dim=op.index_vector_dim,
        slice_sizes=tuple(sizes),
    )


def update_cotangents(op: Scatter, ct: Node, x: Node, indices: Node, updates: Node) -> Node:
    """The cotangents of updates: what lies at their places; where several assigned to one, only the
    last gets it.
    """
    seen = at_places(op, ct, indices, updates.type)
    if op.combine == "assign" and not op.unique:
        order = _numbered(updates.shape)
        places = Node.of(op, _nothing(x.shape), indices, order)
        winner = at_places(op, places, indices, updates.type)
        last = apply("compare", winner, order, direction="eq")
        seen = apply("select", last, seen, zeros(updates.type))
    return seen


def _numbered(shape: Shape) -> Node:
    """Each element's number in row-major order, as i64."""
    line = apply("iota", shape=(volume(shape),), axis=0, dtype=DType.I64)
    return apply("reshape", line, shape=shape)


def _nothing(shape: Shape) -> Node:
    return apply("broadcast", apply("const", value=np.asarray(-1, np.int64)), shape=shape, axes=())
