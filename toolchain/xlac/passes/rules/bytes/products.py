"""Products of bytes less their zero points, on a CPU: the bytes themselves are multiplied, by which
four products are one instruction, and what zero points add is taken off the sums.

    sum (x - a) (w - b)  =  sum x w  -  a sum (w - b)  -  b sum x

In i32, which wraps, both sides are equal to the bit. The weights w are known, so their sums are
too; sums of x are made where b is not 0. Weights become i8, x what the target multiplies with that:
turning the highest bit of a byte moves it and its zero point by 128.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array, frozen_array
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.bytes.borders import has_phases, sums_by_phase, surrounded
from xlac.passes.rules.bytes.operands import (
    BYTES,
    STEP,
    Centred,
    as_wanted,
    centred,
    filled_up,
    fours,
    known,
    settled,
    sums_of,
    taken_off,
    turned,
)
from xlac.passes.rules.bytes.pairs import pairs
from xlac.passes.rules.layouts import channels_last, in_channels_last
from xlac.passes.rules.quantized import interval
from xlac.passes.rules.views import integers
from xlac_sdk.dtypes import DType

ROWS = 8  # rows from which packing an operand at run time pays


def _operands(node: Node, site: Site) -> tuple[Centred, Centred] | None:
    """Both operands of a product that benefits; the right one is known at compile time."""
    if site.context.target.device != "cpu" or node.type.dtype is not DType.I32:
        return None
    if any(not i.type.dtype.is_integer or i.type.dtype is DType.BOOL for i in node.inputs):
        return None
    x, w = (centred(i, site) for i in node.inputs)
    if x is None or w is None or not (known(w.whole) or _packs(node, x, w, site)):
        return None
    if isinstance(w.zero, Node) and known(w.whole) and not known(w.zero):
        return None
    if known(w.whole) and pairs(site):
        return None
    x, w = as_wanted(x, site), turned(w, DType.I8, site)
    return None if (x.whole, w.whole) == node.inputs else (x, w)


def _packs(node: Node, x: Centred, w: Centred, site: Site) -> bool:
    """Whether a product of two run-time operands uses dot-product instructions: one operand is
    packed first, and zero points are numbers.
    """
    op = node.op
    if not isinstance(op, Dot) or not fours(site) or len(op.contract_lhs) != 1:
        return False
    if x.axis is not None or w.axis is not None:
        return False
    rows = integers(
        tuple(x.whole.shape[a] for a in op.free(x.whole.type.rank, w.whole.type.rank)[0])
    )
    depth = integers((x.whole.shape[op.contract_lhs[0]],))
    if rows is None or depth is None or known(x.whole):
        return False
    return prod(rows) >= ROWS and depth[0] % STEP == 0


def _bytes(p: Parameter, *shape: int, dtype: DType = DType.U8, zero: int = 0) -> Node:
    """An example: bytes minus a zero point, in i16."""
    wide = Node.of(Cast(DType.I16), p(*shape, dtype=dtype))
    number = Node.of(Const(np.asarray(-zero, np.int16)))
    return Node.of(Add(), wide, Node.of(Broadcast(shape, ()), number)) if zero else wide


def _weights(*shape: int, dtype: type = np.int8, zero: object = None) -> Node:
    """An example: known bytes minus a zero point, a number or vector of the last axis, in i16."""
    info = np.iinfo(dtype)
    values: Array = np.random.default_rng(1).integers(info.min, info.max + 1, shape).astype(dtype)
    wide = Node.of(Cast(DType.I16), Node.of(Const(frozen_array(values))))
    if zero is None:
        return wide
    zeros = np.asarray(zero, np.int16)
    axes = (len(shape) - 1,) if zeros.ndim else ()
    return Node.of(Sub(), wide, Node.of(Broadcast(shape, axes), Node.of(Const(zeros))))


def _wide(x: Node) -> Node:
    return Node.of(Cast(DType.I32), x)


def _dot(p: Parameter, x: Node, w: Node) -> Node:
    return Node.of(Dot((), (), (1,), (0,), DType.I32), x, w)


@rule(
    Dot,
    examples=[
        lambda p: _dot(p, _bytes(p, 3, 8, zero=128), _weights(8, 5)),
        lambda p: _dot(p, _wide(_bytes(p, 3, 8, zero=1)), _wide(_weights(8, 5, zero=9))),
        lambda p: _dot(p, _bytes(p, 3, 7, zero=3), _weights(7, 5, dtype=np.uint8, zero=128)),
        lambda p: _dot(p, _bytes(p, 3, 8, dtype=DType.I8, zero=-5), _weights(8, 5, zero=7)),
        lambda p: _dot(p, _bytes(p, 3, 8), _weights(8, 4, zero=[1, 0, -3, 127])),
        lambda p: Node.of(
            Dot((0,), (0,), (2,), (1,), DType.I32), _bytes(p, 2, 3, 8, zero=9), _weights(2, 8, 5)
        ),
    ],
)
def dot_of_bytes(node: Node, site: Site) -> Node | None:
    """A product of bytes minus zero points becomes one of bytes, minus sums."""
    assert isinstance(node.op, Dot)
    operands = _operands(node, site)
    if operands is None:
        return None
    op, (x, w) = node.op, operands
    if isinstance(x.zero, Node) and x.axis in op.contract_lhs:
        return None
    if isinstance(w.zero, Node) and w.axis in op.contract_rhs:
        return None
    batch, free = len(op.batch_lhs), op.free(x.whole.type.rank, w.whole.type.rank)
    places = (  # the axes of each operand in the result
        dict(zip((*op.batch_lhs, *free[0]), range(batch + len(free[0])), strict=True)),
        dict(zip(op.batch_rhs, range(batch), strict=True))
        | {a: batch + len(free[0]) + n for n, a in enumerate(free[1])},
    )
    kept = [tuple(place[a] for a in sorted(place)) for place in places]
    if any(list(axes) != sorted(axes) for axes in kept):
        return None
    rows, columns = kept
    left, right = filled_up(op, x.whole, w.whole, STEP, site)
    held = known(w.whole)
    right = settled(right, site) if held else right
    result = site.make(replace(op, out_dtype=DType.I32), left, right)
    if x.zero != 0:
        sums = sums_of(w, tuple(sorted(op.contract_rhs)), site)
        sums = settled(sums, site) if held else sums
        at = None if x.axis is None else places[0][x.axis]
        result = taken_off(result, sums, columns, x.zero, at, site)
    if w.zero != 0:
        sums = sums_of(Centred(x.whole), tuple(sorted(op.contract_lhs)), site)
        at = None if w.axis is None else places[1][w.axis]
        zero = settled(w.zero, site) if isinstance(w.zero, Node) and held else w.zero
        result = taken_off(result, sums, rows, zero, at, site)
    return result


# ---- convolutions --------------------------------------------------------------------------------


def _conv(p: Parameter, x: Node, w: Node, low: int = 1, groups: int = 1, dilation: int = 1) -> Node:
    op = Conv(("NHC", "HIO", "NHC"), (1,), (low,), (low,), (dilation,), (1,), groups, 1, DType.I32)
    return Node.of(op, x, w)


@rule(
    Conv,
    examples=[
        lambda p: _conv(p, _bytes(p, 2, 6, 4, zero=128), _weights(3, 4, 5)),
        lambda p: _conv(p, _bytes(p, 2, 6, 3, zero=7), _weights(3, 3, 5, dtype=np.uint8, zero=128)),
        lambda p: _conv(p, _bytes(p, 2, 6, 4, dtype=DType.I8), _weights(3, 4, 2, zero=[5, -5])),
        lambda p: _conv(p, _bytes(p, 2, 6, 8, zero=3), _weights(3, 4, 6), groups=2),
        lambda p: _conv(p, _bytes(p, 2, 6, 4, zero=3), _weights(3, 4, 6), dilation=2),
    ],
)
def conv_of_bytes(node: Node, site: Site) -> Node | None:
    """A convolution of bytes minus zero points becomes one of bytes, minus sums. x is padded with
    its zero point.
    """
    assert isinstance(node.op, Conv)
    op, operands = node.op, _operands(node, site)
    if operands is None or op.batch_groups > 1:
        return None
    x, w = operands
    output = op.layout[1].index("O")
    taps = dict(zip(op.layout[1], w.whole.shape, strict=True))
    summed = integers([size for axis, size in enumerate(w.whole.shape) if axis != output])
    if x.axis is not None or w.axis not in (None, output) or summed is None:
        return None
    if (op.feature_groups > 1 and (taps["I"] == 1 or w.zero != 0)) or not _fits(x):
        return None
    dilated = x.zero != 0 and set(op.lhs_dilation) != {1}
    if dilated and (not has_phases(op, node) or op.layout != channels_last(op)):
        # with channels last, what is taken off stays a view until it is read
        return in_channels_last(node, site) if has_phases(op, node) else None
    left, right, op = surrounded(op, x, w.whole, STEP, site)
    right = settled(right, site)
    result = site.make(replace(op, out_dtype=DType.I32), left, right)
    channel = op.layout[2].index("C")
    if dilated:
        less = sums_by_phase(op, w, x.zero, result.shape, site)
        result = site.make(Sub(), result, less)
    elif x.zero != 0:
        axes = tuple(a for a in range(w.whole.type.rank) if a != output)
        sums = settled(sums_of(w, axes, site), site)
        result = taken_off(result, sums, (channel,), x.zero, None, site)
    if w.zero != 0:
        shape = integers(tuple(1 if a == output else n for a, n in enumerate(right.shape))) or ()
        inside = np.zeros(shape, np.int8)  # added channels do not belong to x
        inside[tuple(slice(None if a == output else n) for a, n in enumerate(w.whole.shape))] = 1
        ones = site.make(Const(frozen_array(inside)))
        sums = site.make(replace(op, out_dtype=DType.I32), left, ones)
        zero = w.zero if isinstance(w.zero, int) else settled(w.zero, site)
        at = None if w.axis is None else channel
        result = taken_off(result, sums, tuple(range(node.type.rank)), zero, at, site)
    return result


def _fits(x: Centred) -> bool:
    """Whether the zero point is a byte value, with which the bytes can be padded."""
    low, high = interval(x.zero) if isinstance(x.zero, Node) else (x.zero, x.zero)
    info = np.iinfo(x.whole.type.dtype.numpy)
    return bool(info.min <= low and high <= info.max)


# ---- depthwise -------------------------------------------------------------------------------


def _depthwise(p: Parameter, x: Node, channels: int) -> Node:
    (groups,) = static(x.shape[2:])
    return _conv(p, x, _weights(3, 1, channels), groups=groups)


@rule(
    Conv,
    examples=[
        lambda p: _depthwise(p, _bytes(p, 2, 6, 4), 4),
        lambda p: _depthwise(p, _bytes(p, 2, 6, 4, zero=5), 4),
        lambda p: _depthwise(p, _bytes(p, 2, 6, 3, dtype=DType.I8), 6),
    ],
)
def depthwise_of_bytes(node: Node, site: Site) -> Node | None:
    """Bytes that a depthwise convolution multiplies are widened as they are read."""
    assert isinstance(node.op, Conv)
    op, (x, w) = node.op, node.inputs
    single = op.feature_groups > 1 and w.shape[op.layout[1].index("I")] == 1
    if not single or site.context.target.device != "cpu" or node.type.dtype is not DType.I32:
        return None
    left, right = _narrow(x), _narrow(w)
    if left.type.dtype not in (*BYTES, DType.I16) or right.type.dtype is not DType.I8:
        return None
    if (left, right) == (x, w) or not known(right):
        return None
    return site.make(replace(op, out_dtype=DType.I32), left, settled(right, site))


def _narrow(x: Node) -> Node:
    """The bytes beneath a cast that keeps their values."""
    if isinstance(x.op, Cast) and x.type.dtype.is_integer and x.type.dtype.is_signed:
        (inner,) = x.inputs
        if inner.type.dtype in BYTES and x.type.dtype.bits > inner.type.dtype.bits:
            return inner
    return x


BYTE_PRODUCTS = (dot_of_bytes, conv_of_bytes, depthwise_of_bytes)
