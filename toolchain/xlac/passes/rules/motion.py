"""Views move through computation: broadcasts, transposes and reshapes down, slices up.

After a broadcast there is more to compute than before it, and after a slice less. Transposes and
reshapes that move down meet their inverses and cancel, or end at an output.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.dims import Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.reduction.window_choice import SelectAndGather, SelectAndScatter
from xlac.ops.scalar.arithmetic import Add, Exp, Mul
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, constant, rule
from xlac.passes.rules.constants import POINTWISE, is_pointwise
from xlac.passes.rules.parts import cut
from xlac.passes.rules.reductions import reduce
from xlac.passes.rules.views import (
    broadcast,
    groups,
    reshape,
    reshaped_broadcast,
    transpose,
    units_added,
)
from xlac_sdk.dtypes import DType


def uniform(value: Node, shape: Shape, site: Site) -> Node:
    """A tensor of one number in another shape."""
    number = constant(value)
    assert number is not None
    scalar = site.make(Const(number))
    return site.make(Broadcast(shape, ()), scalar) if shape else scalar


def _five(*shape: int) -> Node:
    return broadcast(Node.of(Const(np.array(5, np.float32))), shape, ())


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(Exp(), broadcast(p(3), (2, 3), (1,))),
        lambda p: Node.of(Mul(), broadcast(p(3), (2, 3), (1,)), _five(2, 3)),
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
        lambda p: Node.of(Exp(), transpose(p(2, 3), 1, 0)),
        lambda p: Node.of(Add(), transpose(p(2, 3), 1, 0), transpose(p(2, 3), 1, 0)),
        lambda p: Node.of(Add(), transpose(p(2, 3), 1, 0), broadcast(p(3), (3, 2), (0,))),
        lambda p: Node.of(Mul(), _five(3, 2), transpose(p(2, 3), 1, 0)),
    ],
)
def sink_transpose(node: Node, site: Site) -> Node | None:
    """A transpose of the operands becomes one of the result, where the other operands can be
    transposed at no cost.
    """
    if not is_pointwise(node):
        return None
    likely = next((i for i in node.inputs if isinstance(i.op, Transpose)), None)
    if likely is None:
        return None
    assert isinstance(likely.op, Transpose)
    inverse = Transpose(tuple(np.argsort(likely.op.perm).tolist()))
    if not all(i.op == likely.op or is_free(i) for i in node.inputs):
        return None
    inputs = [i.inputs[0] if i.op == likely.op else site.make(inverse, i) for i in node.inputs]
    return site.make(likely.op, site.make(node.op, *inputs))


def is_free(node: Node) -> bool:
    """Whether transposing a value is free at run time: a broadcast, a constant or a weight."""
    if isinstance(node.op, Param):
        return node.op.kind == "weight"
    return isinstance(node.op, Broadcast | Const)


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(Exp(), reshape(p(2, 3), 6)),
        lambda p: Node.of(Add(), reshape(p(2, 6), 12), reshape(p(2, 6), 12)),
        lambda p: Node.of(Add(), reshape(p(6, 4), 2, 3, 4), broadcast(p(4), (2, 3, 4), (2,))),
        lambda p: Node.of(Mul(), _five(3, 2), reshape(p(6), 3, 2)),
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


def _pooled(p: Parameter) -> Node:
    ones, zeros = (1, 1, 1), (0, 0, 0)
    window = Window("max", None, (1, 2, 3), (1, 2, 1), (0, 1, 0), zeros, ones, ones)
    return Node.of(window, transpose(p(5, 2, 6), 1, 2, 0))


@rule(
    Window,
    Cumulative,
    examples=[_pooled, lambda p: Node.of(Cumulative(0, "max"), transpose(p(3, 4), 1, 0))],
)
def sink_transpose_window(node: Node, site: Site) -> Node | None:
    """A window or running combination of a transpose becomes one over the original axes."""
    x = node.inputs[0]
    if not isinstance(x.op, Transpose) or getattr(node.op, "combine", "") == "body":
        return None
    perm = x.op.perm
    op: Op
    if isinstance(node.op, Window):
        inverse = np.argsort(perm).tolist()
        names = ("window", "strides", "low", "high", "base_dilation", "window_dilation")
        moved = {name: tuple(getattr(node.op, name)[a] for a in inverse) for name in names}
        op = Window(node.op.combine, None, **moved)
    else:
        assert isinstance(node.op, Cumulative)
        op = Cumulative(perm[node.op.axis], node.op.combine, node.op.reverse, node.op.exclusive)
    return site.make(x.op, site.make(op, x.inputs[0]))


def _chosen(p: Parameter, combine: str, op: type[SelectAndGather | SelectAndScatter]) -> Node:
    ones, zeros = (1, 1, 1), (0, 0, 0)
    choice = op(combine, (2, 3, 1), (2, 1, 1), (1, 0, 0), zeros, ones)
    second = p(5, 5, 6) if op is SelectAndGather else p(5, 3, 4)
    return Node.of(choice, *(transpose(x, 1, 2, 0) for x in (p(5, 5, 6), second)))


@rule(
    SelectAndGather,
    SelectAndScatter,
    examples=[
        lambda p: _chosen(p, "max", SelectAndScatter),
        lambda p: _chosen(p, "min", SelectAndGather),
    ],
)
def sink_transpose_choice(node: Node, site: Site) -> Node | None:
    """A window selection of a transpose becomes one over the original axes, in the same order."""
    assert isinstance(node.op, SelectAndGather | SelectAndScatter)
    x = node.inputs[0]
    if not isinstance(x.op, Transpose):
        return None
    crossed = [a for a, n in zip(x.op.perm, node.op.window, strict=True) if n > 1]
    if crossed != sorted(crossed):
        return None
    inverse = tuple(np.argsort(x.op.perm).tolist())
    names = ("window", "strides", "low", "high", "window_dilation")
    moved = {name: tuple(getattr(node.op, name)[a] for a in inverse) for name in names}
    op = type(node.op)(node.op.combine, **moved)
    return site.make(x.op, site.make(op, *(site.make(Transpose(inverse), i) for i in node.inputs)))


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


MOTION = (
    sink_broadcast,
    sink_transpose,
    sink_reshape,
    sink_reshape_reduce,
    sink_transpose_window,
    sink_transpose_choice,
    raise_slice,
)
