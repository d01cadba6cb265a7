"""Moves maxima before dequantization and concatenations after quantization, so that both move
bytes.

    max(f(x)) >> f(max(x))                        where f never falls
    u8(f(concat(x, y))) >> concat(u8(f(x)), u8(f(y)))

Results are equal to the bit. Quantizers write a maximum or a concatenation of floats between
DequantizeLinear and QuantizeLinear.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.scalar.arithmetic import Add, Div, Mul, Round, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Parameter, Site, constant, fill, rule
from xlac.passes.rules.bytes.operands import BYTES
from xlac.passes.rules.constants import is_pointwise
from xlac.passes.rules.quantized import interval
from xlac_sdk.dtypes import DType

LONGEST = 8  # operations between bytes and a maximum, or a concatenation and bytes
ORDERED = ("max", "min")


def operand(node: Node) -> tuple[Node, int] | None:
    """The operand of a pointwise operation whose other operand, if any, is one number, and the
    operand's place; otherwise None.
    """
    places = [n for n, i in enumerate(node.inputs) if constant(i) is None]
    if len(places) != 1 or not is_pointwise(node):
        return None
    return node.inputs[places[0]], places[0]


def again(chain: list[Node], x: Node, site: Site) -> Node:
    """The operations of a chain, from the last to the first, on another tensor."""
    for one in reversed(chain):
        numbers: list[Array | None] = [constant(i) for i in one.inputs]
        x = site.make(one.op, *(x if n is None else fill(n, x, site) for n in numbers))
    return x


def _rises(node: Node, place: int) -> bool:
    """Whether an operation of a dequantization never gives less for more, and no -0."""
    if isinstance(node.op, Cast):
        return not _narrows(node)
    if not isinstance(node.op, Add | Sub | Mul):
        return False
    number = constant(node.inputs[1 - place])
    assert number is not None
    if node.type.dtype.is_integer:
        return isinstance(node.op, Add | Sub) and place == 0 and not _may_wrap(node, number)
    if not isinstance(node.op, Mul) or not np.isfinite(number):
        return False
    least = 2.0**-126 if node.type.dtype is DType.F32 else 2.0**-14
    return float(number) >= least  # a normal number: only products with 0 are 0


def _narrows(node: Node) -> bool:
    """Whether a cast is other than from integers to floats or to wider integers."""
    old, new = node.inputs[0].type.dtype, node.type.dtype
    if old is DType.BOOL or new is DType.BOOL or not old.is_integer:
        return True
    return new.is_integer and not (new.is_signed and new.bits > old.bits)


def _may_wrap(node: Node, number: Array) -> bool:
    low, high = interval(node.inputs[0])
    by = int(number) if isinstance(node.op, Add) else -int(number)
    info = np.iinfo(node.type.dtype.numpy)
    return bool(low + by < info.min or high + by > info.max)


def _occupied(op: Window, x: Node) -> bool:
    """Whether every place of a window has an element, so that its padding never shows."""
    if set(op.base_dilation) != {1} or set(op.window_dilation) != {1}:
        return False
    return all(
        isinstance(size, int) and size > 0 and low < many and high < many
        for many, low, high, size in zip(op.window, op.low, op.high, x.shape, strict=True)
    )


def _dequantized(p: Parameter, *shape: int, dtype: DType = DType.U8, zero: int = -7) -> Node:
    wide = Node.of(Cast(DType.I16), p(*shape, dtype=dtype))
    numbers = (np.asarray(zero, np.int16), np.asarray(0.3, np.float32))
    less, scale = (Node.of(Broadcast(shape, ()), Node.of(Const(n))) for n in numbers)
    return Node.of(Mul(), Node.of(Cast(DType.F32), Node.of(Add(), wide, less)), scale)


def _pooled(combine: str, padding: int, x: Node) -> Node:
    ones, around = (1, 1, 1), (0, padding, 0)
    op = Window(combine, None, (1, 3, 1), (1, 2, 1), around, around, ones, ones)
    return Node.of(op, x)


@rule(
    Window,
    Reduce,
    examples=[
        lambda p: _pooled("max", 1, _dequantized(p, 2, 7, 3)),
        lambda p: _pooled("min", 0, _dequantized(p, 2, 7, 3, dtype=DType.I8)),
        lambda p: Node.of(Reduce((1,), "max"), _dequantized(p, 2, 7, 3)),
    ],
)
def maximum_of_bytes(node: Node, site: Site) -> Node | None:
    """The maximum (or minimum) of dequantized bytes becomes that of the bytes, dequantized."""
    assert isinstance(node.op, Window | Reduce)
    x, op = node.inputs[0], node.op
    if op.combine not in ORDERED or site.context.target.device != "cpu":
        return None
    shape = x.shape if isinstance(op, Window) else tuple(x.shape[a] for a in op.axes)
    if isinstance(op, Window):
        if not _occupied(op, x):
            return None
    elif not all(isinstance(size, int) and size > 0 for size in shape):
        return None
    chain: list[Node] = []
    while x.type.dtype not in BYTES:
        inner = operand(x)
        if inner is None or len(chain) == LONGEST or not _rises(x, inner[1]):
            return None
        chain.append(x)
        x = inner[0]
    return again(chain, site.make(op, x), site) if chain else None


def _quantized(x: Node) -> Node:
    four = Node.of(Broadcast(x.shape, ()), Node.of(Const(np.asarray(4.0, np.float32))))
    return Node.of(Cast(DType.U8), Node.of(Round(), Node.of(Div(), x, four)))


@rule(
    Cast,
    examples=[
        lambda p: _quantized(Node.of(Concat(1), p(2, 3), p(2, 4))),
        lambda p: _quantized(Node.of(Concat(0), p(2, 3), p(1, 3), p(2, 3))),
    ],
)
def concatenation_of_bytes(node: Node, site: Site) -> Node | None:
    """Quantizes the pieces of a concatenation of floats, and then concatenates bytes."""
    if node.type.dtype not in BYTES or site.context.target.device != "cpu":
        return None
    x = node
    chain: list[Node] = []
    while not isinstance(x.op, Concat):
        inner = operand(x)
        if inner is None or len(chain) == LONGEST or (chain and not site.single(x)):
            return None
        chain.append(x)
        x = inner[0]
    if x.type.dtype in BYTES or not site.single(x):
        return None
    return site.make(x.op, *(again(chain, piece, site) for piece in x.inputs))


BYTE_MOTION = (maximum_of_bytes, concatenation_of_bytes)
