"""Products of bytes less their zero points, on a CPU that multiplies pairs of i16 in one
instruction, and bytes only after widening them to such pairs: the differences are stored as i16
where they are made. No zero point remains to be taken off the sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import frozen_array
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.bytes.borders import surrounded
from xlac.passes.rules.bytes.operands import (
    SAFE,
    Centred,
    centred,
    filled,
    filled_up,
    known,
    over,
    settled,
)
from xlac.passes.rules.quantized import largest
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

PAIR = 2  # products that one instruction adds


def pairs(site: Site) -> bool:
    """Whether the target multiplies pairs of i16."""
    target = site.context.target
    able = target.device == "cpu" and target.spells(Primitive.DOT2, DType.I32)
    return able and not target.size  # weights take twice the memory


def _operands(node: Node, site: Site) -> tuple[Node, Node] | None:
    """Both operands of a product as i16, of which the right one is known at compile time; None if
    it has no such operands, or has them already.
    """
    if not pairs(site) or node.type.dtype is not DType.I32:
        return None
    if any(not i.type.dtype.is_integer or i.type.dtype is DType.BOOL for i in node.inputs):
        return None
    x, w = node.inputs
    left = x if x.type.dtype is DType.I16 else _widened(centred(x, site), site)
    right = w if w.type.dtype is DType.I16 and known(w) and not w.inputs else _weight(w, site)
    return None if left is None or right is None or node.inputs == (left, right) else (left, right)


def _weight(w: Node, site: Site) -> Node | None:
    """The right operand as known i16."""
    found = centred(w, site)
    if found is None or not known(found.whole):
        return None
    if isinstance(found.zero, Node) and not known(found.zero):
        return None
    wide = _widened(found, site)
    return None if wide is None else settled(wide, site)


def _widened(x: Centred | None, site: Site) -> Node | None:
    """Bytes less their zero point, in i16; None if that could wrap, or if there are none."""
    if x is None:
        return None
    wide = site.make(Cast(DType.I16), x.whole)
    if isinstance(x.zero, int):
        if x.zero == 0:
            return wide
        if abs(x.zero) > SAFE:
            return None
        return site.make(Sub(), wide, filled(wide.shape, x.zero, DType.I16, site))
    axes = () if x.axis is None else (x.axis,)
    if largest(over(x.zero, wide.shape, axes, site)) > SAFE:
        return None
    return site.make(Sub(), wide, over(site.make(Cast(DType.I16), x.zero), wide.shape, axes, site))


def _bytes(p: Parameter, *shape: int, zero: int = 0) -> Node:
    """An example: bytes minus a zero point, in i32."""
    wide = Node.of(Cast(DType.I32), p(*shape, dtype=DType.U8))
    number = Node.of(Const(frozen_array(np.asarray(zero, np.int32))))
    return Node.of(Sub(), wide, Node.of(Broadcast(shape, ()), number)) if zero else wide


def _weights(*shape: int) -> Node:
    """An example: known bytes, in i32."""
    values = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    return Node.of(Cast(DType.I32), Node.of(Const(frozen_array(values))))


@rule(
    Dot,
    examples=[
        lambda p: Node.of(
            Dot((), (), (1,), (0,), DType.I32), _bytes(p, 3, 7, zero=9), _weights(7, 5)
        ),
        lambda p: Node.of(Dot((), (), (1,), (0,), DType.I32), _bytes(p, 3, 8), _weights(8, 5)),
    ],
)
def dot_of_pairs(node: Node, site: Site) -> Node | None:
    """A product of bytes minus zero points becomes one of i16."""
    assert isinstance(node.op, Dot)
    operands = _operands(node, site)
    if operands is None:
        return None
    left, right = filled_up(node.op, *operands, PAIR, site)
    return site.make(replace(node.op, out_dtype=DType.I32), left, settled(right, site))


@rule(
    Conv,
    examples=[
        lambda p: Node.of(
            Conv(("NHC", "HIO", "NHC"), (1,), (1,), (1,), (1,), (1,), 1, 1, DType.I32),
            _bytes(p, 2, 6, 3, zero=7),
            _weights(3, 3, 5),
        )
    ],
)
def conv_of_pairs(node: Node, site: Site) -> Node | None:
    """A convolution of bytes minus zero points becomes one of i16, which is padded with zeros."""
    assert isinstance(node.op, Conv)
    op = node.op
    single = op.feature_groups > 1 and node.inputs[1].shape[op.layout[1].index("I")] == 1
    operands = None if single or op.batch_groups > 1 else _operands(node, site)
    if operands is None:
        return None
    left, right, op = surrounded(op, Centred(operands[0]), operands[1], PAIR, site)
    return site.make(replace(op, out_dtype=DType.I32), left, settled(right, site))


PAIR_PRODUCTS = (dot_of_pairs, conv_of_pairs)
