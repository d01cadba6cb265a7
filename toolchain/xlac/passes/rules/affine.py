"""Folds scales and shifts by output channel after a convolution or dot product into its weights, as
batch norm needs.

The sums are the same up to the rounding of each product (the scale is applied to a weight instead
of to the sum), so these rules are permitted for f32 and f64 always, and for half precision with
precision "fast". The new weights are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add, Div, Mul, Sub
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Example, Parameter, Site, constant, fill, rule
from xlac.passes.rules.views import broadcast

LOOK = 64  # the largest expression over weights, in nodes, that is examined


def is_known(node: Node) -> bool:
    """Whether a small expression depends on weights and constants only."""
    seen: set[Node] = set()
    pending = [node]
    while pending and len(seen) < LOOK:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if not one.inputs and not (
            isinstance(one.op, Const | Iota)
            or (isinstance(one.op, Param) and one.op.kind == "weight")
        ):
            return False
        pending += one.inputs
    return not pending


def channel(anchor: Node) -> int | None:
    """The axis of a result that runs over the output channels of known weights (the last operand);
    None if there is none.
    """
    if isinstance(anchor.op, Conv) and is_known(anchor.inputs[1]):
        return anchor.op.layout[2].index("C")
    if isinstance(anchor.op, Dot) and is_known(anchor.inputs[1]):
        free = anchor.op.free(*(i.type.rank for i in anchor.inputs))[1]
        return anchor.type.rank - 1 if len(free) == 1 else None
    return None


def is_vector(node: Node, axis: int) -> bool:
    """Whether a value varies along `axis` only, and is known at compile time."""
    if constant(node) is not None:
        return True
    return isinstance(node.op, Broadcast) and node.op.axes == (axis,) and is_known(node)


def may(node: Node, site: Site) -> bool:
    """Whether a multiplication may move past a rounding: for f32 and f64, or with precision
    "fast".
    """
    return node.type.dtype.is_float and (site.context.fast or not node.type.dtype.is_half)


def vector(node: Node, size: object, site: Site) -> Node:
    """The values, one per channel, of a node for which `is_vector` holds."""
    if (number := constant(node)) is not None:
        scalar = site.make(Const(number))
        return site.make(Broadcast((size,), ()), scalar)  # type: ignore[arg-type]
    return node.inputs[0]


def _image(p: Parameter) -> Node:
    ones = (1, 1)
    op = Conv(("NCHW", "OIHW", "NCHW"), ones, ones, ones, ones, ones)
    return Node.of(op, p(2, 3, 4, 5), p(4, 3, 3, 3, kind="weight"))


def _product(p: Parameter) -> Node:
    return Node.of(Dot((), (), (1,), (1,)), p(5, 3), p(4, 3, kind="weight"))


def _by_channel(p: Parameter, like: Node, axis: int) -> Node:
    return broadcast(p(like.shape[axis], kind="weight"), like.shape, (axis,))


@rule(
    Mul,
    Div,
    examples=[
        lambda p: Node.of(Mul(), one := _image(p), _by_channel(p, one, 1)),
        lambda p: Node.of(Div(), one := _product(p), _by_channel(p, one, 1)),
        lambda p: Node.of(
            Mul(),
            one := _product(p),
            broadcast(Node.of(Const(np.array(0.3, np.float32))), one.shape, ()),
        ),
    ],
    reassociates=True,
)
def scale_weights(node: Node, site: Site) -> Node | None:
    """Folds a multiplication by channel into the weights."""
    anchor, by = node.inputs
    if (
        not may(node, site)
        or not site.single(anchor)
        or (axis := channel(anchor)) is None
        or not is_vector(by, axis)
    ):
        return None
    weights = anchor.inputs[1]
    if isinstance(anchor.op, Conv):
        rows = anchor.op.layout[1].index("O")
    else:
        assert isinstance(anchor.op, Dot)
        rows = anchor.op.free(*(i.type.rank for i in anchor.inputs))[1][0]
    if weights.type.dtype is not node.type.dtype:
        return None
    spread = site.make(Broadcast(weights.shape, (rows,)), vector(by, weights.shape[rows], site))
    return site.with_inputs(anchor, anchor.inputs[0], site.make(node.op, weights, spread))


def _shifted(first: Op, after: Op, anchor: Callable[[Parameter], Node]) -> Example:
    """An example: an anchor, a shift of it by channel, and `after`, also by channel."""

    def example(p: Parameter) -> Node:
        shifted = anchor(p)
        shifted = Node.of(first, shifted, _by_channel(p, shifted, 1))
        return Node.of(after, shifted, _by_channel(p, shifted, 1))

    return example


def _shift_of(node: Node, site: Site) -> tuple[Node, Node] | None:
    """The anchor and the shift by channel of the first operand of a node whose second operand is by
    channel too; None for other nodes.
    """
    shifted, by = node.inputs
    if not isinstance(shifted.op, Add | Sub) or not may(node, site) or not site.single(shifted):
        return None
    anchor, shift = shifted.inputs
    axis = channel(anchor)
    if axis is None or not is_vector(by, axis) or not is_vector(shift, axis):
        return None
    return anchor, shift


@rule(
    Mul,
    Div,
    examples=[_shifted(Add(), Mul(), _image), _shifted(Sub(), Div(), _product)],
    reassociates=True,
)
def scale_shifted(node: Node, site: Site) -> Node | None:
    """(anchor + shift) * scale becomes anchor * scale + shift * scale, whose second term is
    constant.
    """
    match = _shift_of(node, site)
    if match is None or not site.single(match[0]):
        return None
    (anchor, shift), (shifted, scale) = match, node.inputs
    scaled = site.make(node.op, anchor, scale)
    return site.make(shifted.op, scaled, site.make(node.op, shift, scale))


@rule(
    Add,
    Sub,
    examples=[_shifted(Add(), Add(), _image), _shifted(Sub(), Add(), _product)],
    reassociates=True,
)
def merge_shifts(node: Node, site: Site) -> Node | None:
    """Two shifts by channel become one."""
    match = _shift_of(node, site)
    if match is None:
        return None
    (anchor, shift), (shifted, again) = match, node.inputs
    if isinstance(shifted.op, Sub):
        shift = site.make(Sub(), fill(np.array(-0.0, node.type.dtype.numpy), node, site), shift)
    return site.make(Add(), anchor, site.make(node.op, shift, again))


@rule(
    Add,
    examples=[lambda p: Node.of(Add(), broadcast(p(4, kind="weight"), (5, 4), (1,)), _product(p))],
)
def shift_last(node: Node, site: Site) -> Node | None:
    """A shift by channel is moved to the right operand, where the other rules look for it."""
    shift, anchor = node.inputs
    axis = channel(anchor)
    if axis is None or not is_vector(shift, axis) or channel(shift) is not None:
        return None
    return site.make(Add(), anchor, shift)


AFFINE = (shift_last, scale_weights, scale_shifted, merge_shifts)
