"""Products of scaled integers: multiplied and added as integers, exactly, then scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add, Mul, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.views import integers
from xlac_sdk.dtypes import DType

SUM = 1 << 31  # bound for a sum in i32


@dataclass(frozen=True, slots=True)
class Scaled:
    """Integers with a float scale: a scalar, or a vector along one axis."""

    whole: Node
    scale: Node
    axis: int | None


def scaled(node: Node, site: Site) -> Scaled | None:
    """A float tensor as scaled integers, also through views; None where it is not that."""
    if isinstance(node.op, Reshape | Transpose | Slice):
        inner = scaled(node.inputs[0], site)
        axis = None if inner is None else _moved(node, inner.axis)
        if inner is None or (inner.axis is not None and axis is None):
            return None
        return Scaled(site.make(node.op, inner.whole), inner.scale, axis)
    if not isinstance(node.op, Mul):
        return None
    for number, by in zip(node.inputs, reversed(node.inputs), strict=True):
        if (
            not isinstance(number.op, Cast)
            or not number.inputs[0].type.dtype.is_integer
            or not isinstance(by.op, Broadcast)
        ):
            continue
        (numbers,) = by.inputs
        varying = [axis for axis, size in zip(by.op.axes, numbers.shape, strict=True) if size != 1]
        if len(varying) <= 1:
            scale = site.make(Reshape(tuple(by.shape[a] for a in varying)), numbers)
            return Scaled(number.inputs[0], scale, varying[0] if varying else None)
    return None


def _moved(view: Node, axis: int | None) -> int | None:
    """Where a view has a whole axis of its operand; None where it has none."""
    if axis is None or isinstance(view.op, Reshape):
        return None
    if isinstance(view.op, Transpose):
        return view.op.perm.index(axis)
    size = view.inputs[0].shape[axis]
    whole = isinstance(view.op, Slice) and view.op.steps[axis] == 1 and view.shape[axis] == size
    return axis if whole else None


def largest(node: Node) -> int:
    """An upper bound for the magnitude of integers."""
    return max(abs(end) for end in interval(node))


def interval(node: Node) -> tuple[int, int]:
    """Bounds of an integer tensor's values."""
    if node.type.dtype is DType.BOOL:
        return 0, 1
    info = np.iinfo(node.type.dtype.numpy)
    held = int(info.min), int(info.max)
    match node.op:
        case Const(value=value) if value.size:
            bounds = int(value.min()), int(value.max())
        case Cast() if node.inputs[0].type.dtype.is_integer:
            bounds = interval(node.inputs[0])
        case Broadcast() | Reshape() | Transpose() | Slice():
            bounds = interval(node.inputs[0])
        case Add() | Sub():
            (a, b), (c, d) = map(interval, node.inputs)
            bounds = (a + c, b + d) if isinstance(node.op, Add) else (a - d, b - c)
        case Mul():
            first, second = map(interval, node.inputs)
            ends = [a * b for a in first for b in second]
            bounds = min(ends), max(ends)
        case _:
            return held
    # otherwise it may wrap
    return bounds if held[0] <= bounds[0] and bounds[1] <= held[1] else held


def alike(a: Node, b: Node, site: Site) -> tuple[Node, Node] | None:
    """Two integer tensors cast to a type that holds both."""
    if a.type.dtype is b.type.dtype:
        return a, b
    if max(largest(a), largest(b)) >= 1 << 15:
        return None
    return tuple(x if x.type.dtype is DType.I16 else site.make(Cast(DType.I16), x) for x in (a, b))  # type: ignore[return-value]


def _multiplied(
    node: Node, site: Site, a: Scaled, b: Scaled, depth: int, places: tuple[int | None, int | None]
) -> Node | None:
    """The product in i32, converted to float and multiplied by both scales, which lie along
    `places` of the result.
    """
    operands = alike(a.whole, b.whole, site)
    if (
        operands is None
        or depth * largest(a.whole) * largest(b.whole) >= SUM
        or operands[0].type.dtype.bits > 16
    ):
        return None
    assert isinstance(node.op, Dot | Conv)
    scaled_product = site.make(
        Cast(node.type.dtype), site.make(replace(node.op, out_dtype=DType.I32), *operands)
    )
    if places == (None, None):
        scale = site.make(Mul(), *(site.make(Cast(node.type.dtype), s.scale) for s in (a, b)))
        return site.make(Mul(), scaled_product, site.make(Broadcast(node.shape, ()), scale))
    if None in places:  # one number per index of an axis
        vector, number = (a, b) if places[1] is None else (b, a)
        parts = [site.make(Cast(node.type.dtype), s.scale) for s in (vector, number)]
        wide = site.make(Broadcast(vector.scale.shape, ()), parts[1])
        scale = site.make(Mul(), parts[0], wide)
        axes = tuple(place for place in places if place is not None)
        return site.make(Mul(), scaled_product, site.make(Broadcast(node.shape, axes), scale))
    for s, place in zip((a, b), places, strict=True):
        axes = () if place is None else (place,)
        scaled_product = site.make(
            Mul(),
            scaled_product,
            site.make(Broadcast(node.shape, axes), site.make(Cast(node.type.dtype), s.scale)),
        )
    return scaled_product


def _whole(p: Parameter, *shape: int, dtype: DType = DType.I8, axis: int | None = None) -> Node:
    """An example: integers as floats with a scale."""
    by = Node.of(Const(np.asarray(0.25, np.float32))) if axis is None else p(shape[axis])
    return Node.of(
        Mul(),
        Node.of(Cast(DType.F32), p(*shape, dtype=dtype)),
        Node.of(Broadcast(shape, () if axis is None else (axis,)), by),
    )


@rule(
    Dot,
    examples=[
        lambda p: Node.of(Dot((), (), (1,), (0,)), _whole(p, 3, 4), _whole(p, 4, 5)),
        lambda p: Node.of(
            Dot((), (), (1,), (0,)), _whole(p, 3, 4, dtype=DType.U8), _whole(p, 4, 5, axis=1)
        ),
        lambda p: Node.of(
            Dot((0,), (0,), (2,), (2,)), _whole(p, 2, 3, 4, axis=1), _whole(p, 2, 5, 4)
        ),
        lambda p: Node.of(
            Dot((), (), (0,), (0,)), Node.of(Transpose((1, 0)), _whole(p, 3, 4)), _whole(p, 4, 5)
        ),
    ],
    reassociates=True,
)
def dot_of_integers(node: Node, site: Site) -> Node | None:
    """A dot product of scaled integers is computed exactly before scaling."""
    assert isinstance(node.op, Dot)
    if node.type.dtype not in (DType.F32, DType.F64) or any(
        i.type.dtype is not node.type.dtype for i in node.inputs
    ):
        return None
    a, b = (scaled(i, site) for i in node.inputs)
    if a is None or b is None:
        return None
    op, (lhs, rhs) = node.op, node.inputs
    extents = integers(tuple(lhs.shape[axis] for axis in op.contract_lhs))
    free = op.free(lhs.type.rank, rhs.type.rank)
    starts = (len(op.batch_lhs), len(op.batch_lhs) + len(free[0]))
    places: list[int | None] = []
    for part, axes, start in zip((a, b), free, starts, strict=True):
        if part.axis is not None and part.axis not in axes:
            return None
        places.append(None if part.axis is None else start + axes.index(part.axis))
    return (
        None
        if extents is None
        else _multiplied(node, site, a, b, prod(extents), (places[0], places[1]))
    )


@rule(
    Conv,
    examples=[
        lambda p: Node.of(
            Conv(("NCHW", "OIHW", "NCHW"), (2, 1), (1, 0), (1, 1), (1, 1), (1, 1)),
            _whole(p, 2, 3, 5, 5, dtype=DType.U8),
            _whole(p, 4, 3, 3, 2, axis=0),
        ),
        lambda p: Node.of(  # a transposed convolution: its kernel is turned
            Conv(("NCW", "OIW", "NCW"), (1,), (1,), (1,), (2,), (1,)),
            _whole(p, 2, 3, 6),
            Node.of(
                Transpose((1, 0, 2)),
                Node.of(Slice((0, 0, 3), (3, 5, -1), (1, 1, -1)), _whole(p, 3, 5, 4, axis=1)),
            ),
        ),
        lambda p: Node.of(
            Conv(("NWC", "WIO", "NWC"), (1,), (0,), (0,), (1,), (1,), 2),
            _whole(p, 2, 6, 4),
            _whole(p, 3, 2, 4),
        ),
    ],
    reassociates=True,
)
def conv_of_integers(node: Node, site: Site) -> Node | None:
    """A convolution of scaled integers is computed exactly before scaling."""
    assert isinstance(node.op, Conv)
    if node.type.dtype not in (DType.F32, DType.F64) or any(
        i.type.dtype is not node.type.dtype for i in node.inputs
    ):
        return None
    a, b = (scaled(i, site) for i in node.inputs)
    if a is None or b is None or a.axis is not None:
        return None
    kernel, layout = node.inputs[1], node.op.layout
    filters = layout[1].index("O")
    extents = integers(tuple(size for axis, size in enumerate(kernel.shape) if axis != filters))
    if extents is None or b.axis not in (None, filters):
        return None
    return _multiplied(
        node, site, a, b, prod(extents), (None, None if b.axis is None else layout[2].index("C"))
    )


QUANTIZED = (dot_of_integers, conv_of_integers)
