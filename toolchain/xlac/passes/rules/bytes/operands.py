"""Operands of 8-bit integer products: bytes, their zero points, and sums over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.graph import Node, walk
from xlac.ir.interpret import evaluate
from xlac.ir.op import frozen_array
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Mul, Sub, Xor
from xlac.ops.scalar.convert import Bitcast, Cast
from xlac.ops.tensor.extend import Pad
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.passes.rewrite.rule import Site
from xlac.passes.rules.quantized import largest
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

Ints = tuple[int, ...]
Zero = int | Node
BYTES = (DType.I8, DType.U8)
STEP = 4  # products that one dot-product instruction sums
SAFE = (1 << 15) - 256  # a zero point below which differences fit in i16


@dataclass(frozen=True, slots=True)
class Centred:
    """Bytes minus a zero point: a number, an i32 scalar, or a vector along one axis."""

    whole: Node
    zero: Zero = 0
    axis: int | None = None


def centred(node: Node, site: Site) -> Centred | None:
    """Integers as bytes minus a zero point, through views; None where they are not that."""
    if node.type.dtype in BYTES:
        return Centred(node)
    match node.op:
        case Const(value=value) if value.size and value.min() >= -128 and value.max() <= 127:
            return Centred(site.make(Const(frozen_array(value.astype(np.int8)))))
        case Cast() if node.inputs[0].type.dtype in BYTES:
            return None if _wraps(node) else Centred(node.inputs[0])
        case Cast() if _widens(node):
            return centred(node.inputs[0], site)
        case Transpose(perm=perm):
            inner = centred(node.inputs[0], site)
            axis = None if inner is None or inner.axis is None else perm.index(inner.axis)
            return inner and Centred(site.make(node.op, inner.whole), inner.zero, axis)
        case Reshape():
            inner = centred(node.inputs[0], site)
            if inner is None or inner.axis is not None:
                return None
            return Centred(site.make(node.op, inner.whole), inner.zero)
        case Add() | Sub():
            return _moved(node, site)
    return None


def _widens(node: Node) -> bool:
    """Whether a cast of integers keeps all values."""
    inner = node.inputs[0].type.dtype
    return inner.is_integer and inner.is_signed and inner.bits < node.type.dtype.bits


def _wraps(node: Node) -> bool:
    """Whether negative integers wrap differently than in i32."""
    return node.type.dtype.bits < 32 and not node.type.dtype.is_signed


def _moved(node: Node, site: Site) -> Centred | None:
    """Bytes plus or minus a number, or a vector along one axis."""
    if _wraps(node):
        return None
    sides = [(node.inputs[0], node.inputs[1])]
    if isinstance(node.op, Add):
        sides.append((node.inputs[1], node.inputs[0]))
    for number, by in sides:
        if not isinstance(number.op, Cast) or number.inputs[0].type.dtype not in BYTES:
            continue
        if not isinstance(by.op, Broadcast | Const):
            continue
        if node.type.dtype.bits < 32 and largest(by) >= SAFE:
            continue
        (zeros,) = by.inputs or (by,)
        places = by.op.axes if isinstance(by.op, Broadcast) else tuple(range(by.type.rank))
        varying = [a for a, size in zip(places, zeros.shape, strict=True) if size != 1]
        if len(varying) > 1:
            continue
        axis = varying[0] if varying else None
        sign = -1 if isinstance(node.op, Add) else 1
        if isinstance(zeros.op, Const) and axis is None:
            return Centred(number.inputs[0], _wrapped(sign * int(zeros.op.value.reshape(()))))
        flat = site.make(Reshape(tuple(by.shape[a] for a in varying)), zeros)
        wide = site.make(Cast(DType.I32), flat)
        return Centred(number.inputs[0], times(wide, sign, site), axis)
    return None


def known(node: Node) -> bool:
    """Whether a value depends on weights and constants only, through views and bit operations."""
    while isinstance(node.op, Transpose | Reshape | Slice | Cast | Bitcast | Pad | Xor):
        node = node.inputs[0]
    return isinstance(node.op, Const) or (isinstance(node.op, Param) and node.op.kind == "weight")


def settled(node: Node, site: Site) -> Node:
    """A known value as a constant, or as a derived weight."""
    if not node.inputs:
        return node
    nodes = list(walk([node]))
    if any(isinstance(n.op, Param) for n in nodes):
        return site.context.weights.derive(node)
    values: dict[Node, tuple[np.ndarray, ...]] = {}
    for one in nodes:
        values[one] = evaluate(one, [values[i] for i in one.inputs])
    return site.make(Const(frozen_array(values[node][0])))


def turned(x: Centred, dtype: DType, site: Site) -> Centred:
    """The same values as bytes of the other signedness, with the zero point moved."""
    if x.whole.type.dtype is dtype:
        return x
    bit, by = (-128, -128) if dtype is DType.I8 else (128, 128)
    held = site.make(Bitcast(dtype), x.whole)
    top = filled(held.shape, bit, dtype, site)
    return replace(x, whole=site.make(Xor(), held, top), zero=_plus(x.zero, by, site))


def as_wanted(x: Centred, site: Site) -> Centred:
    """The left operand in the byte type that the target multiplies with i8."""
    target, dtype = site.context.target, x.whole.type.dtype
    able = {
        DType.U8: target.spells(Primitive.DOT4, DType.U32),
        DType.I8: target.spells(Primitive.DOT4, DType.I32),
    }
    return x if able[dtype] or not any(able.values()) else turned(x, _other(dtype), site)


def _other(dtype: DType) -> DType:
    return DType.I8 if dtype is DType.U8 else DType.U8


def fours(site: Site) -> bool:
    """Whether the target has an instruction that sums four products of bytes."""
    target = site.context.target
    return any(target.spells(Primitive.DOT4, kind) for kind in (DType.U32, DType.I32))


# ---- zero points ---------------------------------------------------------------------------------


def filled(shape: Shape, value: int, dtype: DType, site: Site) -> Node:
    """A tensor of one number."""
    number = site.make(Const(frozen_array(np.asarray(value, dtype.numpy))))
    return site.make(Broadcast(shape, ()), number)


def _wrapped(number: int) -> int:
    """A number wrapped to i32."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _plus(zero: Zero, by: int, site: Site) -> Zero:
    if isinstance(zero, int):
        return _wrapped(zero + by)
    return site.make(Add(), zero, filled(zero.shape, by, DType.I32, site))


def times(x: Node, by: int, site: Site) -> Node:
    """Integers times a number."""
    if by == 1:
        return x
    return site.make(Mul(), x, filled(x.shape, by, DType.I32, site))


def over(x: Node, shape: Shape, axes: Ints, site: Site) -> Node:
    """A broadcast."""
    return site.make(Broadcast(shape, axes), x)


def taken_off(result: Node, sums: Node, axes: Ints, zero: Zero, at: int | None, site: Site) -> Node:
    """Sums, which lie along `axes` of a result, times a zero point, which lies along its axis `at`,
    subtracted from the result. Sums computed at run time come first, so that a product that follows
    them is fused with what reads both.
    """
    if isinstance(zero, int) and not known_sums(sums):
        less = over(times(sums, _wrapped(-zero), site), result.shape, axes, site)
        return site.make(Add(), less, result)
    if isinstance(zero, int):
        return site.make(Sub(), result, over(times(sums, zero, site), result.shape, axes, site))
    wide = over(zero, result.shape, () if at is None else (at,), site)
    return site.make(Sub(), result, site.make(Mul(), over(sums, result.shape, axes, site), wide))


def known_sums(sums: Node) -> bool:
    """Whether sums depend on weights and constants only."""
    leaves = [n for n in walk([sums]) if not n.inputs]
    return all(isinstance(n.op, Const) or getattr(n.op, "kind", "") == "weight" for n in leaves)


def sums_of(x: Centred, axes: Ints, site: Site) -> Node:
    """Sums of known integers along axes, in i32."""
    wide = site.make(Cast(DType.I32), x.whole)
    if x.zero != 0:
        if isinstance(x.zero, int):
            zeros = filled(wide.shape, x.zero, DType.I32, site)
        else:
            zeros = over(x.zero, wide.shape, () if x.axis is None else (x.axis,), site)
        wide = site.make(Sub(), wide, zeros)
    return site.make(Reduce(axes, "add"), wide)


def padded(x: Node, around: dict[int, tuple[int, int]], value: Zero, site: Site) -> Node:
    """Bytes padded with a value before and after the elements of some axes."""
    if isinstance(value, int):
        number = site.make(Const(frozen_array(np.asarray(value, x.type.dtype.numpy))))
    else:
        number = site.make(Cast(x.type.dtype), value)
    low, high = (tuple(around.get(a, (0, 0))[n] for a in range(x.type.rank)) for n in (0, 1))
    return site.make(Pad(low, high, (0,) * x.type.rank), x, number)


def filled_up(op: Dot, x: Node, w: Node, step: int, site: Site) -> tuple[Node, Node]:
    """Operands padded with zeros to whole steps of the summed axis."""
    if len(op.contract_lhs) != 1 or not fours(site):
        return x, w
    axes = op.contract_lhs[0], op.contract_rhs[0]
    size = x.shape[axes[0]]
    if not isinstance(size, int) or size % step == 0 or axes[0] != x.type.rank - 1:
        return x, w
    lacking = -size % step
    return (
        padded(x, {axes[0]: (0, lacking)}, 0, site),
        padded(w, {axes[1]: (0, lacking)}, 0, site),
    )
