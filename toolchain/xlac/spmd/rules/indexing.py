"""Rules of gather and scatter."""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Node
from xlac.ops.checks import NUMBERS
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Broadcast
from xlac.spmd.rules.rule import (
    Dims,
    Factor,
    FactorNumbers,
    Parts,
    ShardingRule,
    cut,
    unchanged,
    whole,
)


def gather(node: Node) -> ShardingRule:
    """The batch axes of the indices, the axes of x that every slice takes whole, and those of which
    it takes one element: parts of these give partial results, of the elements that a rank has.
    """
    op, factors, (x, indices) = node.op, FactorNumbers(), node.inputs
    assert isinstance(op, Gather)
    listed = _listed(indices.type.rank, op.index_vector_dim, indices.shape, factors)
    gone = (*op.collapsed_slice_dims, *op.operand_batching_dims)
    of_x: list[Factor | None] = [
        factors.new(size) if axis not in gone and op.slice_sizes[axis] == size else None
        for axis, size in enumerate(x.shape)
    ]
    for axis, other in zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True):
        of_x[axis] = listed[other]
    taken = [a for a in op.start_index_map if a in gone and op.slice_sizes[a] == 1]
    rows = {a: f for a in taken if (f := factors.new(x.shape[a])) is not None}
    rows = rows if x.type.dtype in NUMBERS else {}  # others are not added
    for axis, factor in rows.items():
        of_x[axis] = factor
    kept = iter(f for axis, f in enumerate(of_x) if axis not in gone)
    batch = iter(f for axis, f in enumerate(listed) if axis != op.index_vector_dim)
    result = tuple(
        next(kept) if axis in op.offset_dims else next(batch) for axis in range(node.type.rank)
    )
    slices = tuple(of_x)

    def local(parts: Parts) -> Gather:
        sizes = tuple(
            size if axis in gone else cut((size,), (factor,), parts)[0]
            for axis, (size, factor) in enumerate(zip(op.slice_sizes, slices, strict=True))
        )
        return replace(op, slice_sizes=sizes)

    combine = dict.fromkeys(rows.values(), "add")
    return ShardingRule((slices, listed), (result,), factors.sizes, local, combine, rows=rows)


def scatter(node: Node) -> ShardingRule:
    """The axes of x that every update takes whole, and those at whose indices it changes one
    element. Updates that are added to zeros may be in parts, too, which give partial sums.
    """
    op, factors = node.op, FactorNumbers()
    assert isinstance(op, Scatter)
    if len(node.inputs) != 3:
        return whole(node)
    x, indices, updates = node.inputs
    listed = _listed(indices.type.rank, op.index_vector_dim, indices.shape, factors)
    gone = (*op.inserted_window_dims, *op.input_batching_dims)
    window = [axis for axis in range(x.type.rank) if axis not in gone]
    of_x: list[Factor | None] = [None] * x.type.rank
    of_updates: list[Factor | None] = [None] * updates.type.rank
    for axis, place in zip(window, op.update_window_dims, strict=True):
        if x.shape[axis] == updates.shape[place]:
            of_x[axis] = of_updates[place] = factors.new(x.shape[axis])
    for axis, other in zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True):
        of_x[axis] = listed[other]
    rows: dict[int, Factor] = {}
    for axis in op.scatter_dims_to_operand_dims:
        factor = factors.new(x.shape[axis]) if axis in op.inserted_window_dims else None
        if factor is not None:
            of_x[axis] = rows[axis] = factor
    outer = [axis for axis in range(updates.type.rank) if axis not in op.update_window_dims]
    batch = [axis for axis in range(len(listed)) if axis != op.index_vector_dim]
    partial = op.combine == "add" and is_zeros(x)
    combine: dict[Factor, str] = {}
    batching = op.scatter_indices_batching_dims
    for place, axis in zip(outer, batch, strict=True):
        of_updates[place] = listed[axis]
        factor = listed[axis]
        if axis not in batching and factor is not None:
            combine[factor] = "add"
    if not partial:  # each place's updates are combined in order, by one rank
        listed = tuple(f if a in batching else None for a, f in enumerate(listed))
        of_updates = [None if f in combine else f for f in of_updates]
        combine = {}
    whole_x = tuple(of_x)
    return ShardingRule(
        (whole_x, listed, tuple(of_updates)),
        (whole_x,),
        factors.sizes,
        unchanged(node),
        combine,
        rows=rows,
    )


def _listed(rank: int, vector: int, shape: tuple[object, ...], factors: FactorNumbers) -> Dims:
    """A factor for each axis of the indices but that of the index vectors."""
    return tuple(None if axis == vector else factors.new(shape[axis]) for axis in range(rank))


def is_zeros(x: Node) -> bool:
    """Whether a value is zeros, which partial sums may each begin with."""
    if isinstance(x.op, Broadcast):
        return is_zeros(x.inputs[0])
    return isinstance(x.op, Const) and not x.op.value.any()
