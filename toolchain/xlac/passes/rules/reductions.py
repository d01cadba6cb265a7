"""Merges reductions with reductions and views, and removes trivial ones."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Site, fill, rule
from xlac.passes.rules.views import broadcast, transpose
from xlac_sdk.dtypes import DType

IDEMPOTENT = frozenset({"max", "min", "and", "or"})


def reduce(x: Node, combine: str, *axes: int) -> Node:
    """A reduction of x."""
    return Node.of(Reduce(axes, combine), x)


@rule(
    Reduce,
    examples=[
        lambda p: reduce(reduce(p(2, 3, 4), "max", 1), "max", 0),
        lambda p: reduce(reduce(p(2, 3, 4), "add", 0), "add", 1),
        lambda p: reduce(reduce(p(2, 3, 4, dtype=DType.BF16), "min", 2), "min", 0, 1),
        lambda p: reduce(reduce(p(2, 3, 4, dtype=DType.I8), "mul", 2), "mul", 0, 1),
    ],
)
def merge_reduce(node: Node, site: Site) -> Node | None:
    """Merges two reductions with the same combination. For half precision sums this drops a
    rounding, so only with precision fast.
    """
    assert isinstance(node.op, Reduce)
    inner = node.inputs[0]
    if (
        not isinstance(inner.op, Reduce)
        or inner.op.combine != node.op.combine
        or node.op.combine == "body"
    ):
        return None
    if node.type.dtype.is_half and node.op.combine in ("add", "mul") and not site.context.fast:
        return None
    (x,) = inner.inputs
    kept = [axis for axis in range(x.type.rank) if axis not in inner.op.axes]
    axes = sorted({*inner.op.axes, *(kept[axis] for axis in node.op.axes)})
    return site.make(Reduce(tuple(axes), node.op.combine), x) if site.single(inner) else None


@rule(
    Reduce,
    examples=[
        lambda p: reduce(transpose(p(2, 3, 4), 2, 0, 1), "max", 0),
        lambda p: reduce(transpose(p(2, 3, 4), 2, 0, 1), "add", 1),
    ],
)
def reduce_transpose(node: Node, site: Site) -> Node | None:
    """A reduction of a transpose becomes one over the original axes, with a transpose of the
    result.
    """
    assert isinstance(node.op, Reduce)
    x = node.inputs[0]
    if node.op.combine == "body" or not isinstance(x.op, Transpose):
        return None
    perm = x.op.perm
    axes = tuple(sorted(perm[a] for a in node.op.axes))
    kept = [a for a in range(len(perm)) if a not in axes]
    order = tuple(kept.index(perm[a]) for a in range(len(perm)) if a not in node.op.axes)
    return site.make(Transpose(order), site.make(Reduce(axes, node.op.combine), x.inputs[0]))


@rule(
    Reduce,
    examples=[
        lambda p: reduce(p(2, 1, 3), "max", 1),
        lambda p: reduce(p(2, 1, 3), "add", 1),
        lambda p: reduce(p(2, 3, dtype=DType.I32), "add"),
        lambda p: reduce(p(2, 1, 3), "mul", 1, 2),
    ],
)
def reduce_units(node: Node, site: Site) -> Node | None:
    """A reduction over unit axes becomes a reshape. A float sum starts with 0, which turns -0.0
    into 0.0.
    """
    assert isinstance(node.op, Reduce)
    x, combine = node.inputs[0], node.op.combine
    if combine == "body":
        return None
    real = tuple(a for a in node.op.axes if x.shape[a] != 1)
    if len(real) == len(node.op.axes) and real:
        return None
    if real:
        units = [a for a in node.op.axes if x.shape[a] == 1]
        squeezed = site.make(Reshape(tuple(s for a, s in enumerate(x.shape) if a not in units)), x)
        moved = tuple(a - sum(u < a for u in units) for a in real)
        return site.make(Reduce(moved, combine), squeezed)
    same = site.make(Reshape(node.shape), x)
    if combine == "add" and node.type.dtype.is_float:
        zero = fill(np.zeros((), node.type.dtype.numpy), node, site)
        return site.make(Add(), same, zero)
    return same


@rule(
    Reduce,
    examples=[
        lambda p: reduce(broadcast(p(3), (2, 3), (1,)), "max", 0),
        lambda p: reduce(broadcast(p(3, dtype=DType.I32), (2, 3), (1,)), "and", 0, 1),
    ],
)
def reduce_broadcast(node: Node, site: Site) -> Node | None:
    """An idempotent reduction of a broadcast becomes its operand."""
    assert isinstance(node.op, Reduce)
    x = node.inputs[0]
    if node.op.combine not in IDEMPOTENT or not isinstance(x.op, Broadcast):
        return None
    (inner,), axes = x.inputs, x.op.axes
    if 1 in inner.shape or not all(isinstance(s, int) and s > 0 for s in x.shape):
        return None
    repeated = [a for a in node.op.axes if a not in axes]
    if not repeated:
        return None
    kept = [a for a in range(x.type.rank) if a not in repeated]
    shape = tuple(x.shape[a] for a in kept)
    smaller = site.make(Broadcast(shape, tuple(kept.index(a) for a in axes)), inner)
    left = tuple(kept.index(a) for a in node.op.axes if a not in repeated)
    return site.make(Reduce(left, node.op.combine), smaller)


REDUCTIONS = (merge_reduce, reduce_transpose, reduce_units, reduce_broadcast)
