"""Brings planes of bytes to pixels: a transposition of few channels to the last axis becomes a
concatenation of single elements, which a kernel stores as whole vectors.

    transpose(pad(u8(f(x))))  >>  concat(…, concat(u8(f(x[0])), u8(f(x[1])), …), …)

The first convolution of a quantized model reads its image so: three planes of floats, quantized,
with a fourth channel added and the border that its windows leave.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.dims import Shape, static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.scalar.arithmetic import Round
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, constant, rule
from xlac.passes.rules.bytes.motion import LONGEST, again, operand
from xlac.passes.rules.bytes.operands import BYTES, Ints
from xlac.passes.rules.views import integers
from xlac_sdk.dtypes import DType

MOST = 4  # channels: the bytes of a word


def _image(p: Parameter, *around: tuple[int, int], channels: int = 3) -> Node:
    """An example: planes of floats as bytes, padded, with channels last."""
    x = Node.of(Cast(DType.U8), Node.of(Round(), p(2, channels, 5, 6)))
    if around:
        low, high = ((0, *ends, 0, 0)[:4] for ends in zip(*around, strict=True))
        number = Node.of(Const(np.asarray(125, np.uint8)))
        x = Node.of(Pad(low, high, (0, 0, 0, 0)), x, number)
    return Node.of(Transpose((0, 2, 3, 1)), x)


@rule(
    Transpose,
    examples=[
        lambda p: _image(p, (0, 1)),
        lambda p: _image(p, (0, 1), (3, 3), (0, 2)),
        lambda p: _image(p, channels=4),
        lambda p: _image(p, (0, 2), channels=2),
    ],
)
def planes_to_pixels(node: Node, site: Site) -> Node | None:
    """A transposition of bytes of few channels, padded or not, becomes a concatenation of them."""
    rank = node.type.rank
    if node.type.dtype not in BYTES or site.context.target.device != "cpu" or rank < 3:
        return None
    shape = integers(node.shape)
    if node.op != Transpose((0, *range(2, rank), 1)) or shape is None:
        return None
    (x,) = node.inputs
    number: Array | None = None
    low: Shape = (0,) * rank
    high = low
    if isinstance(x.op, Pad):
        number, low, high = constant(x.inputs[1]), x.op.low, x.op.high
        if number is None or any(x.op.interior):
            return None
        x = x.inputs[0]
    before, after = integers(low), integers(high)
    if before is None or after is None or min(*before, *after) < 0:
        return None
    if not 1 < shape[-1] <= MOST or 0 in shape or before[0] or after[0]:
        return None
    return _joined(x, (before, after), number, site)


def _joined(x: Node, around: tuple[Ints, Ints], number: Array | None, site: Site) -> Node:
    """The planes of x side by side, with a border and more channels of one number."""
    last = x.type.rank - 1
    pixels = (*x.shape[:1], *x.shape[2:], 1)

    def filled(shape: Shape, many: int, axis: int) -> list[Node]:
        if not many:
            return []
        assert number is not None
        size = tuple(many if a == axis else n for a, n in enumerate(shape))
        return [site.make(Broadcast(size, ()), site.make(Const(number)))]

    (planes,) = static(x.shape[1:2])
    whole = site.make(
        Concat(last),
        *filled(pixels, min(1, around[0][1]), last) * around[0][1],
        *(_plane(x, channel, site) for channel in range(planes)),
        *filled(pixels, min(1, around[1][1]), last) * around[1][1],
    )
    for axis in reversed(range(1, last)):
        low, high = (filled(whole.shape, ends[axis + 1], axis) for ends in around)
        if low or high:
            whole = site.make(Concat(axis), *low, whole, *high)
    return whole


def _plane(x: Node, channel: int, site: Site) -> Node:
    """One channel with a last axis of one element: cut out of what the bytes are computed from."""
    chain: list[Node] = []
    while len(chain) < LONGEST and site.single(x) and (inner := operand(x)) is not None:
        chain.append(x)
        x = inner[0]
    starts = tuple(channel if a == 1 else 0 for a in range(x.type.rank))
    stops = tuple(channel + 1 if a == 1 else n for a, n in enumerate(x.shape))
    cut = site.make(Slice(starts, stops, (1,) * x.type.rank), x)
    return again(chain, site.make(Reshape((*x.shape[:1], *x.shape[2:], 1)), cut), site)


BYTE_PLANES = (planes_to_pixels,)
