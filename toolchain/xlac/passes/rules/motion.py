"""Views move through computation: broadcasts and reshapes down (transposes are in `transposes`),
slices up.

After a broadcast there is more to compute than before it, and after a slice less. Reshapes that
move down meet their inverses and cancel, or end at an output.
"""

from __future__ import annotations

from xlac.ir.dims import Shape, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Mul
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Slice
from xlac.passes.rewrite.rule import Site, constant, rule
from xlac.passes.rules.constants import POINTWISE, is_pointwise
from xlac.passes.rules.parts import cut
from xlac.passes.rules.reductions import reduce
from xlac.passes.rules.transposes import TRANSPOSES, is_free
from xlac.passes.rules.views import (
    broadcast,
    five,
    groups,
    reshape,
    reshaped_broadcast,
    units_added,
)
from xlac_sdk.dtypes import DType


def uniform(value: Node, shape: Shape, site: Site) -> Node:
    """A tensor of one number in another shape."""
    number = constant(value)
    assert number is not None
    scalar = site.make(Const(number))
    return site.make(Broadcast(shape, ()), scalar) if shape else scalar


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(Exp(), broadcast(p(3), (2, 3), (1,))),
        lambda p: Node.of(Mul(), broadcast(p(3), (2, 3), (1,)), five(2, 3)),
        lambda p: Node.of(Add(), broadcast(p(3), (3, 4), (0,)), broadcast(p(3), (3, 4), (0,))),
        lambda p: Node.of(Cast(DType.I32), broadcast(p(), (2, 3), ())),
    ],
)
def sink_broadcast(node: Node, site: Site) -> Node | None:
    """An operation on equal broadcasts becomes a broadcast of the operation, which has fewer
    elements.
    """
    if not is_pointwise(node):
        return None
    likely = next(
        (i for i in node.inputs if isinstance(i.op, Broadcast) and constant(i) is None), None
    )
    if likely is None:
        return None
    source = likely.inputs[0]
    inputs = []
    for i in node.inputs:
        if i.op == likely.op and i.inputs[0].shape == source.shape:
            inputs.append(i.inputs[0])
        elif constant(i) is not None:
            inputs.append(uniform(i, source.shape, site))
        else:
            return None
    return site.make(likely.op, site.make(node.op, *inputs))


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(Exp(), reshape(p(2, 3), 6)),
        lambda p: Node.of(Add(), reshape(p(2, 6), 12), reshape(p(2, 6), 12)),
        lambda p: Node.of(Add(), reshape(p(6, 4), 2, 3, 4), broadcast(p(4), (2, 3, 4), (2,))),
        lambda p: Node.of(Mul(), five(3, 2), reshape(p(6), 3, 2)),
        lambda p: Node.of(Mul(), p(3, 2, kind="weight"), reshape(p(6), 3, 2)),
        lambda p: Node.of(Mul(), p(3, 1, 2), reshape(p(3, 2), 3, 1, 2)),
    ],
)
def sink_reshape(node: Node, site: Site) -> Node | None:
    """A reshape of the operands becomes one of the result, where the others can be reshaped at no
    cost.

    Unit axes that a reshape added are removed from all operands.
    """
    if not is_pointwise(node):
        return None
    likely = next(
        (i for i in node.inputs if isinstance(i.op, Reshape) and constant(i) is None), None
    )
    if likely is None:
        return None
    source = likely.inputs[0]
    adds, removes = (
        units_added(*pair) is not None
        for pair in ((source.shape, node.shape), (node.shape, source.shape))
    )
    inputs: list[Node] = []
    for i in node.inputs:
        if isinstance(i.op, Reshape) and i.inputs[0].shape == source.shape:
            inputs.append(i.inputs[0])
        elif constant(i) is not None:
            inputs.append(uniform(i, source.shape, site))
        elif removes:  # units are removed from operands, never added to any
            return None
        elif (
            isinstance(i.op, Broadcast)
            and (other := reshaped_broadcast(i, source.shape, site)) is not None
        ):
            inputs.append(other)
        elif (is_free(i) and not isinstance(i.op, Broadcast)) or adds:
            inputs.append(site.make(Reshape(source.shape), i))
        else:
            return None
    return site.make(Reshape(node.shape), site.make(node.op, *inputs))


@rule(
    Reduce,
    examples=[
        lambda p: reduce(reshape(p(6, 4), 2, 3, 4), "max", 2),
        lambda p: reduce(reshape(p(2, 12), 2, 3, 4), "add", 1, 2),
        lambda p: reduce(reshape(p(2, 3, 4), 6, 4), "min", 0),
    ],
)
def sink_reshape_reduce(node: Node, site: Site) -> Node | None:
    """A reduction over whole groups of a reshape's axes becomes one of the reshape's operand."""
    assert isinstance(node.op, Reduce)
    x = node.inputs[0]
    if node.op.combine == "body" or not isinstance(x.op, Reshape):
        return None
    source = x.inputs[0]
    if (runs := groups(source.shape, x.shape)) is None:
        return None
    axes: list[int] = []
    for old, new in runs:
        inside = [a for a in new if a in node.op.axes]
        if not inside:
            continue
        if volume(tuple(x.shape[a] for a in inside)) != volume(tuple(x.shape[a] for a in new)):
            return None
        axes += [a for a in old if source.shape[a] != 1]
    if not axes:
        return None
    return site.make(Reshape(node.shape), site.make(Reduce(tuple(axes), node.op.combine), source))


@rule(
    Slice,
    examples=[
        lambda p: cut(Node.of(Exp(), p(4, 5)), (1, 0), (3, 5)),
        lambda p: cut(Node.of(Add(), p(7), broadcast(p(), (7,), ())), (6,), (-1,), (-2,)),
    ],
)
def raise_slice(node: Node, site: Site) -> Node | None:
    """Moves a slice before an operation, so that only the elements that it keeps are computed."""
    x = node.inputs[0]
    if not is_pointwise(x) or not site.single(x):
        return None
    return site.make(x.op, *(site.make(node.op, i) for i in x.inputs))


MOTION = (sink_broadcast, *TRANSPOSES, sink_reshape, sink_reshape_reduce, raise_slice)
