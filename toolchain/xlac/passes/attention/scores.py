"""Matches the chain from the weights over keys down to the product of queries and keys: softmax,
masks and scale, in their usual forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import Dim, static
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.nn.probability import Softmax
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Div, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.leaf import Const, Iota
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.attention.axis_factors import VIEWS, Axes, Factors, Ints
from xlac.passes.rewrite.rule import constant

Readers = Callable[[Node], int]
"""The number of nodes that read a node."""

MOST = 4  # masks at most


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask that is added to the scores; or, with `hidden`, a condition for keeping them and the
    value of hidden scores.
    """

    node: Node
    axes: Axes
    hidden: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The product of queries and keys, its axes, and the operations on it, the last first.
    `rounded` says that intermediate results are stored in half precision.
    """

    dot: Node
    axes: Axes
    scale: float | None = None
    masks: tuple[Mask, ...] = ()
    rounded: bool = False


def softmax(node: Node, readers: Readers) -> tuple[Node, int] | None:
    """The operand and axis of the softmax that a node is; None where it is not one, or intermediate
    values have other readers.
    """
    if isinstance(node.op, Softmax):
        (x,) = node.inputs
        return (x, node.op.axis % node.type.rank) if readers(x) == 1 else None
    for powers, total in _quotients(node):
        axis = _spread(total, "add", powers, readers, inverted=isinstance(node.op, Mul))
        if axis is None or not isinstance(powers.op, Exp) or readers(powers) != 2:
            continue
        (shifted,) = powers.inputs
        if isinstance(shifted.op, Sub) and readers(shifted) == 1:
            x, top = shifted.inputs
            if _spread(top, "max", x, readers) == axis and readers(x) == 2:
                return x, axis
    return None


def _quotients(node: Node) -> Sequence[tuple[Node, ...]]:
    """All (x, y) such that a node may be x / y, as a quotient or as a product with a reciprocal."""
    if isinstance(node.op, Div):
        return [node.inputs]
    return [node.inputs, node.inputs[::-1]] if isinstance(node.op, Mul) else []


def _spread(
    node: Node, combine: str, x: Node, readers: Readers, inverted: bool = False
) -> int | None:
    """The axis along which x was reduced by `combine` and broadcast to its own shape again,
    `inverted` where the reciprocal was taken; None for anything else.
    """
    factors = Factors()
    axes = inner = factors.of(node.shape)
    while readers(node) == 1:
        if isinstance(node.op, VIEWS) and (below := factors.below(node, inner)) is not None:
            (node,), inner = node.inputs, below
        elif inverted and isinstance(node.op, Div) and _is_one(node.inputs[0]):
            node, inverted = node.inputs[1], False
        else:
            break
    if (
        inverted
        or readers(node) != 1
        or node.op != Reduce(node.op.axes if isinstance(node.op, Reduce) else (), combine)
    ):
        return None
    if len(node.op.axes) != 1 or node.inputs != (x,):
        return None
    (axis,) = node.op.axes
    rest = [factors.flat(a) for number, a in enumerate(axes) if number != axis]
    return axis if [factors.flat(a) for a in inner] == rest else None


def _is_one(node: Node) -> bool:
    value = constant(node)
    return value is not None and float(value) == 1


def scores(
    node: Node, axes: Axes, factors: Factors, readers: Readers, known: Scores | None = None
) -> Scores | None:
    """The operations between a product and a node, which may have other readers; values in between
    may not.
    """
    known, first = known or Scores(node, axes), node
    while True:
        if known.rounded is False and node.type.dtype.is_half:
            known = replace(known, rounded=True)
        if node is not first and readers(node) != 1:
            return None
        if isinstance(node.op, Cast) and node.inputs[0].type.dtype.is_float:
            below: Axes | None = axes
        elif isinstance(node.op, VIEWS):
            below = factors.below(node, axes)
        else:
            break
        if below is None or len(factors.flat(*below)) != len(factors.flat(*axes)):
            return None
        (node,), axes = node.inputs, below
    if isinstance(node.op, Dot):
        return replace(known, dot=node, axes=axes)
    for x, after in _steps(node, axes, known):
        if readers(x) == 1 and (behind := scores(x, axes, factors, readers, after)) is not None:
            return behind
    return None


def _steps(node: Node, axes: Axes, known: Scores) -> list[tuple[Node, Scores]]:
    """The operands of a node that may lead to the scores, each with the masks and scale known then.
    The scale is applied before masks.
    """
    if known.scale is not None or len(known.masks) == MOST:
        return []
    match node.op:
        case Mul() | Div():
            return _scaled(node, known)
        case Add():
            x, y = node.inputs
            return [(a, _masked(known, Mask(b, axes))) for a, b in ((x, y), (y, x))]
        case Sub():
            x, y = node.inputs
            return [(x, _masked(known, Mask(build.apply1("neg", y), axes)))]
        case Select():
            condition, x, y = node.inputs
            pairs = (x, condition, constant(y)), (y, build.apply1("not", condition), constant(x))
            return [
                (a, _masked(known, Mask(seen, axes, float(hidden))))
                for a, seen, hidden in pairs
                if hidden is not None
            ]
    return []


def _masked(known: Scores, mask: Mask) -> Scores:
    return replace(known, masks=(*known.masks, mask))


def _scaled(node: Node, known: Scores) -> list[tuple[Node, Scores]]:
    """Scores times or over a number; the reciprocal is rounded for the latter."""
    for x, by in _quotients(node):
        value = constant(by)
        if value is not None and value != 0 and np.isfinite(value):
            scale = 1 / float(value) if isinstance(node.op, Div) else float(value)
            return [(x, replace(known, scale=scale))] if math.isfinite(scale) else []
    return []


def is_causal(mask: Mask, factors: Factors, query: Ints, key: Ints, gap: Dim) -> bool:
    """Whether query i may see exactly the keys up to i + gap: compared counters, or a constant mask
    of that form.
    """
    node, axes = mask.node, mask.axes
    while isinstance(node.op, VIEWS) and (inner := factors.below(node, axes)) is not None:
        (node,), axes = node.inputs, inner
    if not isinstance(gap, int) or factors.flat(*axes) not in ((*query, *key), (*key, *query)):
        return False
    if isinstance(node.op, Const):
        by_query = factors.flat(*axes) == (*query, *key)
        lengths = static((factors.size(query), factors.size(key)))
        table = node.op.value.reshape(lengths if by_query else lengths[::-1])
        table = table if by_query else table.T
        return bool(np.array_equal(table, np.tri(table.shape[0], table.shape[1], gap, bool)))
    if not isinstance(node.op, Compare) or node.op.direction not in ("le", "lt", "ge", "gt"):
        return False
    less, more = (_linear(x, axes, factors, query, key) for x in node.inputs)
    if node.op.direction in ("ge", "gt"):
        less, more = more, less
    if less is None or more is None:
        return False
    row, column, rest = (b - a for a, b in zip(less, more, strict=True))
    return (row, column, rest - (node.op.direction in ("lt", "gt"))) == (1, -1, gap)


Linear = tuple[int, int, int]  # coefficients of the query's index, the key's index, and 1


def _linear(
    node: Node, axes: Axes, factors: Factors, query: Ints, key: Ints, depth: int = 8
) -> Linear | None:
    """A value as a linear function of the query's and key's index; None where it is not one of at
    most `depth` operations.
    """
    value = constant(node)
    if depth == 0:
        return None
    if value is not None:
        return (0, 0, int(value)) if node.type.dtype.is_integer else None
    match node.op:
        case Reshape() | Transpose() | Broadcast():
            inner = factors.below(node, axes)
            return (
                None
                if inner is None
                else _linear(node.inputs[0], inner, factors, query, key, depth - 1)
            )
        case Iota(axis=axis, dtype=dtype) if dtype.is_integer:
            along = factors.flat(axes[axis])
            return (1, 0, 0) if along == query else (0, 1, 0) if along == key else None
        case Cast(dtype=dtype) if dtype.is_integer and dtype.bits >= 32:
            return _linear(node.inputs[0], axes, factors, query, key, depth - 1)
        case Add() | Sub():
            parts = [_linear(i, axes, factors, query, key, depth - 1) for i in node.inputs]
            if parts[0] is None or parts[1] is None:
                return None
            sign = 1 if isinstance(node.op, Add) else -1
            a, b, c = (x + sign * y for x, y in zip(*parts, strict=True))
            return a, b, c
    return None
