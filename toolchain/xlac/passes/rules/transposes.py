"""Transposes move down through computation, where they meet their inverses and cancel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ir.permutations import inverse
from xlac.ops.nodes import take
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.window import Window
from xlac.ops.reduction.window_choice import SelectAndGather, SelectAndScatter
from xlac.ops.scalar.arithmetic import Add, Mul
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.constants import POINTWISE, is_pointwise
from xlac.passes.rules.parts import concat
from xlac.passes.rules.views import broadcast, five, groups, reshape, transpose


@rule(
    *POINTWISE,
    examples=[
        lambda p: Node.of(Exp(), transpose(p(2, 3), 1, 0)),
        lambda p: Node.of(Add(), transpose(p(2, 3), 1, 0), transpose(p(2, 3), 1, 0)),
        lambda p: Node.of(Add(), transpose(p(2, 3), 1, 0), broadcast(p(3), (3, 2), (0,))),
        lambda p: Node.of(Mul(), five(3, 2), transpose(p(2, 3), 1, 0)),
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
    return sunk(node, likely, site, lambda i, back: is_free(i))


def sunk(
    node: Node, likely: Node, site: Site, costs_nothing: Callable[[Node, Transpose], bool]
) -> Node | None:
    """A pointwise operation below the transpose `likely`, one of its operands; None unless for each
    operand that is not transposed so, the inverse `costs_nothing`.
    """
    assert isinstance(likely.op, Transpose)
    back = likely.op.inverse
    if not all(i.op == likely.op or costs_nothing(i, back) for i in node.inputs):
        return None
    inputs = [i.inputs[0] if i.op == likely.op else site.make(back, i) for i in node.inputs]
    return site.make(likely.op, site.make(node.op, *inputs))


def is_free(node: Node) -> bool:
    """Whether transposing a value is free at run time: a broadcast, a constant, or a weight, also
    through views that are not folded into it yet.
    """
    weight = node
    while isinstance(weight.op, Reshape | Transpose):
        (weight,) = weight.inputs
    if isinstance(weight.op, Param):
        node = weight
    if isinstance(node.op, Param):
        return node.op.kind == "weight"
    return isinstance(node.op, Broadcast | Const)


@rule(
    Transpose,
    examples=[
        lambda p: transpose(reshape(transpose(p(6, 4), 1, 0), 4, 2, 3), 1, 2, 0),
        lambda p: transpose(reshape(transpose(p(5, 2, 3, 4), 0, 3, 1, 2), 5, 4, 6), 0, 2, 1),
        lambda p: transpose(reshape(transpose(p(1, 6, 4), 0, 2, 1), 1, 4, 2, 3), 0, 2, 3, 1),
        lambda p: transpose(reshape(transpose(p(2, 3, 4, 5), 2, 3, 0, 1), 4, 5, 6), 2, 0, 1),
    ],
)
def cancel_across_reshape(node: Node, site: Site) -> Node | None:
    """Two transposes with a reshape between them become one reshape, where they put every axis
    back: so do vision models change from pixels in sequence to maps of channels for a convolution,
    which takes them with channels last.
    """
    assert isinstance(node.op, Transpose)
    (between,) = node.inputs
    return _undone(between, node.op.perm, site) if isinstance(between.op, Reshape) else None


def _undone(x: Node, perm: Sequence[int], site: Site) -> Node | None:
    """A value transposed by `perm`, where that puts all axes but units back: a reshape of what had
    been transposed.
    """
    if (found := _as_transpose(x, site)) is None:
        return None
    source, before = found
    moved = [before[axis] for axis in perm if x.shape[axis] != 1]
    shape = tuple(x.shape[axis] for axis in perm)
    return site.make(Reshape(shape), source) if moved == sorted(moved) else None


def _as_transpose(x: Node, site: Site) -> tuple[Node, tuple[int, ...]] | None:
    """A value and a permutation of its axes that give x: a transpose, or a reshape of one. None for
    others.
    """
    if isinstance(x.op, Transpose):
        return x.inputs[0], x.op.perm
    if not isinstance(x.op, Reshape) or not isinstance(x.inputs[0].op, Transpose):
        return None
    if (order := _order_before(x.inputs[0], x.shape)) is None:
        return None
    source = site.make(Reshape(tuple(x.shape[axis] for axis in order)), x.inputs[0].inputs[0])
    return source, inverse(order)


def _order_before(x: Node, shape: Shape) -> list[int] | None:
    """The axes of a reshape of a transpose in the order that they have before the transpose; None
    where the reshape joins axes that are not adjacent there.
    """
    assert isinstance(x.op, Transpose)
    if (runs := groups(x.shape, shape)) is None:
        return None
    real = [axis for axis, size in enumerate(x.inputs[0].shape) if size != 1]
    places: list[int] = []  # of the first axis of each run among `real`; units come first
    for old, _ in runs:
        joined = [real.index(x.op.perm[a]) for a in old if x.shape[a] != 1]
        if joined and joined != list(range(joined[0], joined[0] + len(joined))):
            return None
        places.append(joined[0] if joined else -1)
    in_order = sorted(range(len(runs)), key=lambda run: places[run])
    return [axis for run in in_order for axis in runs[run][1]]


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
        back = inverse(perm)
        names = ("window", "strides", "low", "high", "base_dilation", "window_dilation")
        moved = {name: tuple(getattr(node.op, name)[a] for a in back) for name in names}
        op = Window(node.op.combine, None, **moved)
    else:
        assert isinstance(node.op, Cumulative)
        op = Cumulative(perm[node.op.axis], node.op.combine, node.op.reverse, node.op.exclusive)
    return site.make(x.op, site.make(op, x.inputs[0]))


@rule(
    Gather,
    examples=[
        lambda p: take(transpose(p(2, 3, 4), 0, 2, 1), _rows(2, 0, 1), 1),
        lambda p: take(transpose(p(3, 4, 5), 2, 0, 1), _rows(2, 9), 1),
        lambda p: take(transpose(p(2, 3, 4), 2, 1, 0), reshape(_rows(0, 3, 1, 1), 2, 2), 0),
        lambda p: take(reshape(transpose(p(6, 4), 1, 0), 4, 2, 3), _rows(2, 0, 1), 2),
    ],
)
def sink_transpose_take(node: Node, site: Site) -> Node | None:
    """Slices of a transpose along one axis, as those that interpolation weighs, become a transpose
    of slices, also through a reshape. Those of weights stay, being computed at compile time.
    """
    assert isinstance(node.op, Gather)
    x, indices = node.inputs
    if len(node.op.start_index_map) != 1 or is_free(x):
        return None
    (axis,), many = node.op.start_index_map, indices.type.rank
    if node.op != take(x, indices, axis).op or (found := _as_transpose(x, site)) is None:
        return None
    source, perm = found
    along = perm[axis]
    order: list[int] = []
    for number, old in enumerate(perm):
        if number == axis:
            order += range(along, along + many)
        else:
            order.append(old if old < along else old + many - 1)
    return site.make(
        Transpose(tuple(order)), site.make(take(source, indices, along).op, source, indices)
    )


@rule(
    Concat,
    examples=[
        lambda p: concat(1, transpose(p(1, 4, 3), 0, 2, 1), transpose(p(4, 1, 2), 1, 2, 0)),
        lambda p: concat(
            2, transpose(p(5, 6, 4), 2, 0, 1), reshape(transpose(p(10, 4), 1, 0), 4, 5, 2)
        ),
    ],
)
def sink_transpose_concat(node: Node, site: Site) -> Node | None:
    """A concatenation of values that one transpose puts back becomes a transpose of one: the maps
    of several resolutions, as decoders join them.
    """
    assert isinstance(node.op, Concat)
    first = next((i for i in node.inputs if isinstance(i.op, Transpose)), None)
    if first is None:
        return None
    assert isinstance(first.op, Transpose)
    undone = first.op.inverse.perm
    before: list[Node] = []
    for i in node.inputs:
        if (back := _undone(i, undone, site)) is None:
            return None
        before.append(back)
    return site.make(first.op, site.make(Concat(first.op.perm[node.op.axis]), *before))


def _rows(*numbers: int) -> Node:
    return Node.of(Const(np.array(numbers, np.int32)))


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
    back = inverse(x.op.perm)
    names = ("window", "strides", "low", "high", "window_dilation")
    moved = {name: tuple(getattr(node.op, name)[a] for a in back) for name in names}
    op = type(node.op)(node.op.combine, **moved)
    return site.make(x.op, site.make(op, *(site.make(Transpose(back), i) for i in node.inputs)))


TRANSPOSES = (
    sink_transpose,
    cancel_across_reshape,
    sink_transpose_window,
    sink_transpose_take,
    sink_transpose_concat,
    sink_transpose_choice,
)
