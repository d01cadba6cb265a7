"""Convolutions along one more axis: it is folded into the batch, into the kernel's outputs, or
makes groups of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node, apply
from xlac.ir.leading import one_by_one

if TYPE_CHECKING:
    from xlac.ops.reduction.conv import Conv


def batched(
    op: Conv, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
) -> Sequence[Node]:
    """The result of a convolution along a leading axis of those inputs that are `mapped`."""
    x, kernel = inputs
    text, taps, result = op.layout
    groups = op.feature_groups * op.batch_groups
    if not mapped[1]:  # one kernel for all: more of a batch, inside of its groups
        wide = Node.of(op, _folded(x, text.index("N"), op.batch_groups), kernel)
        return [_unfolded(wide, result.index("N"), 1, size, node.shape)]
    if not mapped[0]:  # more outputs of each group
        wide = Node.of(op, x, _folded(kernel, taps.index("O"), groups))
        return [_unfolded(wide, result.index("C"), groups, size, node.shape)]
    if not isinstance(size, int):
        return one_by_one(node, inputs, mapped, size)
    kernel = _folded(kernel, taps.index("O"), 1)
    if op.batch_groups > 1:
        op = replace(op, batch_groups=op.batch_groups * size)
        x = _folded(x, text.index("N"), 1)
    else:
        op = replace(op, feature_groups=op.feature_groups * size)
        x = _folded(x, text.index("C"), 1)
    return [_unfolded(Node.of(op, x, kernel), result.index("C"), 1, size, node.shape)]


def _folded(x: Node, axis: int, groups: int) -> Node:
    """The leading axis as a part of another (numbered without it), inside of its outer groups."""
    size, *shape = x.shape
    part = shape[axis] // groups
    split = apply("reshape", x, shape=(size, *shape[:axis], groups, part, *shape[axis + 1 :]))
    order = (*range(1, axis + 2), 0, *range(axis + 2, split.type.rank))
    merged = (*shape[:axis], groups * size * part, *shape[axis + 1 :])
    return apply("reshape", apply("transpose", split, perm=order), shape=merged)


def _unfolded(x: Node, axis: int, groups: int, size: Dim, shape: Shape) -> Node:
    """What `_folded` put into an axis as a leading axis again, before what has a shape."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    split = apply("reshape", x, shape=(*before, groups, size, shape[axis] // groups, *after))
    order = (axis + 1, *range(axis + 1), *range(axis + 2, split.type.rank))
    return apply("reshape", apply("transpose", split, perm=order), shape=(size, *shape))
