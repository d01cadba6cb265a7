"""Folds operations on uniform constants: tensors with one value, represented as a broadcast
scalar.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import OPS, Op
from xlac.ops.reduction import contraction, conv, cumulative, order, reduction, window
from xlac.ops.scalar import arithmetic, comparison, convert, primitive
from xlac.ops.tensor import dynamic_slice, extend, gather, scatter, view
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Transpose
from xlac.passes.rewrite.rule import Site, constant, fill, rule
from xlac_sdk.dtypes import DType

POINTWISE: tuple[type[Op], ...] = (
    *(op for op in OPS.values() if issubclass(op, primitive.Scalar)),
    comparison.Compare,
    comparison.Select,
    convert.Cast,
    convert.Bitcast,
)
"""Operations that compute each element from the elements at the same index (a bitcast where the
width is unchanged).
"""


COMPUTED: tuple[type[Op], ...] = (
    *POINTWISE, conv.Conv, contraction.Dot, dynamic_slice.DynSlice, dynamic_slice.DynUpdate,
    gather.Gather, scatter.Scatter, order.Sort, cumulative.Cumulative, reduction.Reduce,
    window.Window, view.Broadcast, extend.Concat, extend.Pad, view.Reshape, view.Slice,
    view.Transpose,
)  # fmt: skip
"""Operations whose results depend only on their operands' elements."""


def is_pointwise(node: Node) -> bool:
    """Whether element i of the result depends on elements i of the inputs only."""
    return isinstance(node.op, POINTWISE) and all(i.shape == node.shape for i in node.inputs)


def _fives(count: int = 3) -> Node:
    return Node.of(Broadcast((count,), ()), Node.of(Const(np.array(5, np.float32))))


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(arithmetic.Sqrt(), _fives()),
        lambda p: Node.of(comparison.Compare("lt"), _fives(), _fives()),
        lambda p: Node.of(convert.Cast(DType.BF16), _fives()),
    ],
)
def fold_uniform(node: Node, site: Site) -> Node | None:
    """Folds an operation on uniform constants."""
    values = []
    for i in node.inputs:
        if (value := constant(i)) is None:
            return None
        values.append(value)
    if not is_pointwise(node):
        return None
    return fill(np.asarray(node.op.evaluate(*values)), node, site)


@rule(Const, examples=[lambda p: Node.of(Const(np.full((2, 3), 7.0, np.float32)))])
def splat(node: Node, site: Site) -> Node | None:
    """An array of equal numbers becomes a broadcast scalar."""
    assert isinstance(node.op, Const)
    value = node.op.value
    if value.size <= 1 or node.op.uniform is None:
        return None
    return fill(value.reshape(-1)[:1].reshape(()), node, site)


@rule(
    *COMPUTED,
    examples=[
        lambda p: Node.of(arithmetic.Add(), p(0, 3), p(0, 3)),
        lambda p: Node.of(Transpose((1, 0)), p(0, 3)),
        lambda p: Node.of(Broadcast((2, 0), (1,)), p(0)),
    ],
)
def empty(node: Node, site: Site) -> Node | None:
    """A tensor without elements becomes a constant."""
    if (
        len(node.results) != 1
        or 0 not in node.shape
        or (isinstance(node.op, Broadcast) and constant(node) is not None)
    ):
        return None
    return fill(np.zeros((), node.type.dtype.numpy), node, site)


CONSTANTS = (fold_uniform, splat, empty)
