"""Rules of operations that compute elements alone, or move them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.ir.graph import Node
from xlac.ops.tensor.dynamic_slice import DynSlice
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Iota
from xlac.ops.tensor.reorder import Roll
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.spmd.mesh import part_size
from xlac.spmd.rules.reach import RegroupedAxes
from xlac.spmd.rules.rule import Dims, Factor, FactorNumbers, Parts, ShardingRule, cut, unchanged


def pointwise(node: Node) -> ShardingRule:
    """Every axis, of operands of the result's shape; scalars are whole."""
    factors = FactorNumbers()
    dims = factors.each(node.shape)
    operands = tuple(dims if i.type.rank else () for i in node.inputs)
    return ShardingRule(operands, (dims,), factors.sizes, unchanged(node))


def transpose(node: Node) -> ShardingRule:
    """Every axis."""
    op, factors = node.op, FactorNumbers()
    assert isinstance(op, Transpose)
    dims = factors.each(node.inputs[0].shape)
    return ShardingRule((dims,), (tuple(dims[a] for a in op.perm),), factors.sizes, unchanged(node))


def broadcast(node: Node) -> ShardingRule:
    """Every axis of the result; those along which x is repeated need no more of x."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Broadcast)
    results = factors.each(op.shape)
    operand = tuple(
        results[axis] if size == op.shape[axis] else None
        for axis, size in zip(op.axes, x.shape, strict=True)
    )

    def local(parts: Parts) -> Broadcast:
        return replace(op, shape=cut(op.shape, results, parts))

    return ShardingRule((operand,), (results,), factors.sizes, local)


def reshape(node: Node) -> ShardingRule:
    """Axes whose elements stay together: of a merged or a divided axis, the first of the parts."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Reshape)
    regroups: dict[Factor, RegroupedAxes] = {}
    before, after = _regrouped(x.shape, op.shape, factors, regroups)

    def local(parts: Parts) -> Reshape:
        return replace(op, shape=cut(op.shape, after, parts))

    even = factors.even
    return ShardingRule((before,), (after,), factors.sizes, local, even=even, regroups=regroups)


def _regrouped(
    before: Sequence[object],
    after: Sequence[object],
    factors: FactorNumbers,
    regroups: dict[Factor, RegroupedAxes],
) -> tuple[Dims, Dims]:
    """The factor of each axis before and after a reshape: the axes are cut into runs of equal
    products, and the first axes of a run share a factor. Notes in `regroups` what a run merges or
    splits.
    """
    olds: list[Factor | None] = [None] * len(before)
    news: list[Factor | None] = [None] * len(after)
    if not all(isinstance(size, int) and size for size in (*before, *after)):
        return tuple(olds), tuple(news)
    old = new = 0
    while old < len(before) and new < len(after):
        run = (old, new)
        left, right = before[old], after[new]
        assert isinstance(left, int) and isinstance(right, int)
        old, new = old + 1, new + 1
        if left == 1 or right == 1:  # an axis of one element belongs to no run
            old, new = (old, run[1]) if left == 1 else (run[0], new)
            continue
        factor = factors.new(left)
        if left != right:
            factor = factors.within(factor, right)
        olds[run[0]] = news[run[1]] = factor
        while left != right:
            if left < right:
                left, old = left * int(str(before[old])), old + 1
            else:
                right, new = right * int(str(after[new])), new + 1
        first, then = int(str(before[run[0]])), int(str(after[run[1]]))
        if factor is not None and first != then:
            regroups[factor] = RegroupedAxes(run[0], old, left, first, then)
    return tuple(olds), tuple(news)


def sliced(node: Node) -> ShardingRule:
    """The axes that are kept whole."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Slice)
    bounds = zip(op.starts, op.stops, op.steps, x.shape, strict=True)
    dims = tuple(
        factors.new(size) if (start, stop, step) == (0, size, 1) else None
        for start, stop, step, size in bounds
    )

    def local(parts: Parts) -> Slice:
        stops = tuple(
            part_size(stop, parts(factor)) if factor is not None and isinstance(stop, int) else stop
            for stop, factor in zip(op.stops, dims, strict=True)
        )
        return replace(op, stops=stops)

    return ShardingRule((dims,), (dims,), factors.sizes, local)


def pad(node: Node) -> ShardingRule:
    """The axes that get no padding."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Pad)
    dims = tuple(
        factors.new(size) if (low, high, inside) == (0, 0, 0) else None
        for low, high, inside, size in zip(op.low, op.high, op.interior, x.shape, strict=True)
    )
    return ShardingRule((dims, ()), (dims,), factors.sizes, unchanged(node))


def concat(node: Node) -> ShardingRule:
    """All axes but that of the parts."""
    op, factors = node.op, FactorNumbers()
    assert isinstance(op, Concat)
    axis = op.axis % node.type.rank
    dims = tuple(None if a == axis else factors.new(size) for a, size in enumerate(node.shape))
    return ShardingRule((dims,) * len(node.inputs), (dims,), factors.sizes, unchanged(node))


def roll(node: Node) -> ShardingRule:
    """Every axis; of the one that is rolled, equal parts."""
    op, factors = node.op, FactorNumbers()
    assert isinstance(op, Roll)
    axis = op.axis % node.type.rank
    dims = tuple(
        factors.within(factors.new(size), size) if a == axis else factors.new(size)
        for a, size in enumerate(node.shape)
    )
    return ShardingRule((dims,), (dims,), factors.sizes, unchanged(node), even=factors.even)


def iota(node: Node) -> ShardingRule:
    """Every axis; along the one that counts, each rank adds where its part begins."""
    op, factors = node.op, FactorNumbers()
    assert isinstance(op, Iota)
    dims = factors.each(op.shape)

    def local(parts: Parts) -> Iota:
        return replace(op, shape=cut(op.shape, dims, parts))

    return ShardingRule((), (dims,), factors.sizes, local)


def dyn_slice(node: Node) -> ShardingRule:
    """The axes that are read whole."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, DynSlice)
    dims = tuple(
        factors.new(size) if size == least else None
        for size, least in zip(x.shape, op.sizes, strict=True)
    )

    def local(parts: Parts) -> DynSlice:
        return replace(op, sizes=cut(op.sizes, dims, parts))

    starts = ((),) * (len(node.inputs) - 1)
    return ShardingRule((dims, *starts), (dims,), factors.sizes, local)


def dyn_update(node: Node) -> ShardingRule:
    """The axes that are replaced whole."""
    factors, (x, update) = FactorNumbers(), node.inputs[:2]
    dims = tuple(
        factors.new(size) if size == least else None
        for size, least in zip(x.shape, update.shape, strict=True)
    )
    starts = ((),) * (len(node.inputs) - 2)
    return ShardingRule((dims, dims, *starts), (dims,), factors.sizes, unchanged(node))
