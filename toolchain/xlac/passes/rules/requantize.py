"""Merges the scaling of integer sums with the division by the result's scale into one
multiplication, as ONNX Runtime does.

    round((f32(sum) * s + f32(b) * s) / c)  >>  round(f32(sum + b) * (s / c))

One product rounds where three operations did, so that a number halfway between two integers may
round to the other one.
"""

from __future__ import annotations

from math import prod

import numpy as np

from xlac.ir.graph import Node, walk
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add, Div, Max, Min, Mul, Round, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, constant, rule
from xlac.passes.rules.quantized import SUM, largest
from xlac.passes.rules.views import integers
from xlac_sdk.dtypes import DType

SMALL = 1 << 20  # elements of scales that are examined
FEW = 1 << 12  # elements of those that are kept
HALF = int(np.finfo(np.float16).max)
NEAR = 2.0**-20  # permitted relative difference between the scale of a bias and that of the sums


def numbers(node: Node, site: Site) -> Array | None:
    """The value, without broadcasts, of a small node that depends on constants and weights only;
    otherwise None. Of a few elements it is computed once.
    """
    while isinstance(node.op, Broadcast):
        (node,) = node.inputs
    known = site.context.numbers
    if node not in known:
        values = _evaluated(node, site)
        if values is not None and values.size > FEW:
            return values
        known[node] = values
    return known[node]


def _evaluated(node: Node, site: Site) -> Array | None:
    if not isinstance(node.type.size, int) or node.type.size > SMALL:
        return None
    values: dict[Node, tuple[Array, ...]] = {}
    for one in walk([node]):
        if isinstance(one.op, Param):
            if one.op.kind != "weight" or one.op.name not in site.context.weights:
                return None
            values[one] = (site.context.weights[one.op.name],)
        elif one.inputs or isinstance(one.op, Const):
            values[one] = evaluate(one, [values[i] for i in one.inputs])
        else:
            return None
    return values[node][0]


def magnitude(node: Node, site: Site) -> int:
    """An upper bound for the magnitude of integers."""
    op, held = node.op, largest(node)
    if not node.type.dtype.is_signed and any(i.type.dtype.is_signed for i in node.inputs):
        return held  # negative numbers wrap
    match op:
        case Dot() | Conv():
            left, right = (magnitude(i, site) for i in node.inputs)
            shape, type_ = node.inputs[1].shape, node.inputs[1].type
            kept = (
                [op.layout[1].index("O")]
                if isinstance(op, Conv)
                else [a for a in range(type_.rank) if a not in op.contract_rhs]
            )
            depth = integers([size for axis, size in enumerate(shape) if axis not in kept])
            return held if depth is None else min(held, prod(depth) * left * right)
        case Sub() if not node.type.dtype.is_signed:
            return held
        case Add() | Sub():
            return min(held, sum(magnitude(i, site) for i in node.inputs))
        case Cast() if not node.inputs[0].type.dtype.is_integer:
            return held
        case Cast() | Broadcast() | Reshape() | Transpose():
            return min(held, magnitude(node.inputs[0], site))
    greatest = site.context.greatest
    if node not in greatest:
        known = numbers(node, site)
        most = held if known is None else int(np.abs(known.astype(np.int64)).max(initial=0))
        greatest[node] = most
    return greatest[node]


def scaled(node: Node, site: Site) -> tuple[Node, Node] | None:
    """Integers as floats, times known factors that vary along one axis at most; otherwise None."""
    if not isinstance(node.op, Mul):
        return None
    for whole, by in (node.inputs, node.inputs[::-1]):
        if not isinstance(whole.op, Cast) or not whole.inputs[0].type.dtype.is_integer:
            continue
        if by.type.rank <= 1 or (isinstance(by.op, Broadcast) and by.inputs[0].type.rank <= 1):
            return whole, by
    return None


def _positive(node: Node, site: Site) -> bool:
    values = numbers(node, site)
    return values is not None and bool(np.all(values > 0)) and bool(np.all(np.isfinite(values)))


def _over(by: Node, divisor: Node, site: Site) -> Node | None:
    """A quotient of known factors along one axis at most, before they are broadcast; None where it
    is not finite, since 0 times it would be NaN.
    """
    values = numbers(by, site), numbers(divisor, site)
    if values[0] is None or values[1] is None:
        return None
    with np.errstate(all="ignore"):
        if not np.all(np.isfinite(np.max(np.abs(values[0])) / np.min(values[1]))):
            return None
    parts = [(n.op, n.inputs[0]) for n in (by, divisor) if isinstance(n.op, Broadcast)]
    if len(parts) != 2:
        return None
    (first, a), (second, b) = parts
    if not isinstance(first, Broadcast) or not isinstance(second, Broadcast):
        return None
    if a.type.rank and b.type.rank and first.axes != second.axes:
        return None
    wide = a if a.type.rank else b
    axes = first.axes if a.type.rank else second.axes
    both = [x if x.shape == wide.shape else site.make(Broadcast(wide.shape, ()), x) for x in (a, b)]
    return site.make(Broadcast(by.shape, axes), site.make(Div(), *both))


def _alike(a: Node, b: Node, site: Site) -> bool:
    """Whether two scales are equal up to rounding."""
    if not (isinstance(a.op, Broadcast) and isinstance(b.op, Broadcast)):
        return False
    first, second = numbers(a, site), numbers(b, site)
    if first is None or second is None:
        return False
    if first.size != 1 and second.size != 1 and a.op.axes != b.op.axes:
        return False
    return bool(np.all(np.abs(first - second) <= NEAR * np.abs(first)))


def divided(node: Node, by: Node, site: Site) -> Node | None:
    """A node divided by positive numbers, as integers times one factor; otherwise None."""
    if not site.single(node):
        return None
    match = scaled(node, site)
    if match is not None:
        factor = _over(match[1], by, site)
        return None if factor is None else site.make(Mul(), match[0], factor)
    match node.op:
        case Max() | Min():
            for inner, limit in (node.inputs, node.inputs[::-1]):
                if constant(limit) is None:
                    continue
                less = divided(inner, by, site)
                if less is None:
                    return None
                zero = float(constant(limit) or 0) == 0.0
                return site.make(node.op, less, limit if zero else site.make(Div(), limit, by))
        case Add():
            return _shifted(node, by, site)
    return None


def _shifted(node: Node, by: Node, site: Site) -> Node | None:
    """Sums plus a bias of the same scale: the bias is added as integers."""
    for sums, bias in (node.inputs, node.inputs[::-1]):
        match = scaled(sums, site)
        if match is None or not site.single(sums):
            continue
        (whole,), factor = match[0].inputs, match[1]
        spread = bias.op.axes if isinstance(bias.op, Broadcast) else None
        shift = scaled(bias.inputs[0] if spread is not None else bias, site)
        if shift is None:
            continue
        (added,), scale = shift[0].inputs, shift[1]
        most = HALF if node.type.dtype is DType.F16 else SUM
        if magnitude(whole, site) + magnitude(added, site) >= most:
            continue
        if spread is not None:
            added = site.make(Broadcast(node.shape, spread), added)
            inner = scale.op.axes if isinstance(scale.op, Broadcast) else range(scale.type.rank)
            axes = tuple(spread[a] for a in inner)
            vector = scale.inputs[0] if isinstance(scale.op, Broadcast) else scale
            scale = site.make(Broadcast(node.shape, axes), vector)
        if not _alike(factor, scale, site):
            continue
        whole, added = (
            i if i.type.dtype is DType.I32 else site.make(Cast(DType.I32), i)
            for i in (whole, added)
        )
        quotient = _over(factor, by, site)
        if quotient is None:
            return None
        total = site.make(Cast(node.type.dtype), site.make(Add(), whole, added))
        return site.make(Mul(), total, quotient)
    return None


def _numbers(values: object) -> Node:
    return Node.of(Const(np.asarray(values, np.float32)))


def _times(x: Node, values: object, axes: tuple[int, ...] = ()) -> Node:
    wide = Node.of(Cast(DType.F32), x) if x.type.dtype.is_integer else x
    return Node.of(Mul(), wide, Node.of(Broadcast(x.shape, axes), _numbers(values)))


def _quantized(x: Node, extreme: float | None = None) -> Node:
    if extreme is not None:
        x = Node.of(Max(), x, Node.of(Broadcast(x.shape, ()), _numbers(extreme)))
    return Node.of(Round(), Node.of(Div(), x, Node.of(Broadcast(x.shape, ()), _numbers(4.0))))


def _with_bias(p: Parameter, vector: bool, of_floats: bool = False, plain: bool = False) -> Node:
    """An example: sums and a bias, with scales that are a number or a vector of the bias's
    length.
    """
    scale, axes = ([0.5, 0.25, 2.0], (1,)) if vector else (0.5, ())
    whole = Node.of(Cast(DType.I16), p(4, 3)) if of_floats else p(4, 3, dtype=DType.I16)
    sums = _times(whole, scale, axes)
    shift = Node.of(Const(np.array([3, -5, 1000], np.int32)))
    if plain:
        bias = Node.of(Mul(), Node.of(Cast(DType.F32), shift), _numbers(scale))
    else:
        bias = _times(shift, scale, (0,) if vector else ())
    return _quantized(Node.of(Add(), sums, Node.of(Broadcast((4, 3), (1,)), bias)), 0.0)


@rule(
    Round,
    examples=[
        lambda p: _quantized(_times(p(4, 3, dtype=DType.I32), 0.5)),
        lambda p: _quantized(_times(p(4, 3, dtype=DType.I32), [0.5, 0.25, 2.0], (1,)), 0.0),
        lambda p: _quantized(_times(p(4, 3, dtype=DType.I32), 0.25), -6.0),
        lambda p: _with_bias(p, vector=False),
        lambda p: _with_bias(p, vector=True),
        lambda p: _with_bias(p, vector=True, of_floats=True),
        lambda p: _with_bias(p, vector=True, plain=True),
    ],
    reassociates=True,
)
def requantized(node: Node, site: Site) -> Node | None:
    """A rounded quotient becomes a rounded product of integer sums and one factor."""
    (quotient,) = node.inputs
    if not isinstance(quotient.op, Div) or not site.single(quotient):
        return None
    number, by = quotient.inputs
    if not isinstance(by.op, Broadcast) or by.inputs[0].type.rank > 1 or not _positive(by, site):
        return None
    match = divided(number, by, site)
    return None if match is None else site.make(node.op, match)


REQUANTIZE = (requantized,)
