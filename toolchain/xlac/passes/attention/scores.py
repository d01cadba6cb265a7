"""From weights over keys down to the product of queries and keys: softmax, masks and scale, as
people write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.nn.probability import Softmax
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Div, Exp, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Iota
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.attention.axis_factors import VIEWS, Axes, Factors, Ints
from xlac.passes.rewrite.rule import constant

Readers = Callable[[Node], int]
"""How many nodes read a node."""

MOST = 4  # masks


@dataclass(frozen=True, slots=True)
class Mask:
    """What is added to the scores; or, with a number for what is hidden, where they are kept."""

    node: Node
    axes: Axes
    hidden: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The product of queries and keys, its axes, and what is done to it, the last first. `rounded`
    says that halves are stored in between."""

    dot: Node
    axes: Axes
    scale: float | None = None
    masks: tuple[Mask, ...] = ()
    rounded: bool = False


def softmax(node: Node, readers: Readers) -> tuple[Node, int] | None:
    """The scores that a node is the softmax of, and the axis, where nothing else reads anything in
    between.
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
    """(x, y) of what may be x over y, or x times what is the reciprocal of something."""
    if isinstance(node.op, Div):
        return [node.inputs]
    return [node.inputs, node.inputs[::-1]] if isinstance(node.op, Mul) else []


def _spread(
    node: Node, combine: str, x: Node, readers: Readers, inverted: bool = False
) -> int | None:
    """The axis along which x was combined to be spread over its own shape again, the reciprocal if
    it was inverted.
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
    """What is done to a product until it is a node. Nothing reads it in between, but the node may
    have other readers.
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
    """The operands of a node that may be where the scores come from, and what is known then. Masks
    follow the scale.
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
    """Scores times a number, or over one, whose reciprocal is rounded then."""
    for x, by in _quotients(node):
        value = constant(by)
        if value is not None and value != 0 and np.isfinite(value):
            scale = 1 / float(value) if isinstance(node.op, Div) else float(value)
            return [(x, replace(known, scale=scale))] if math.isfinite(scale) else []
    return []


def is_causal(mask: Mask, factors: Factors, query: Ints, key: Ints, gap: Dim) -> bool:
    """Whether query i may see the keys up to i + gap, and no other: counters compared, or such a
    constant.
    """
    node, axes = mask.node, mask.axes
    while isinstance(node.op, VIEWS) and (inner := factors.below(node, axes)) is not None:
        (node,), axes = node.inputs, inner
    if not isinstance(gap, int) or factors.flat(*axes) not in ((*query, *key), (*key, *query)):
        return False
    if isinstance(node.op, Const):
        table = node.op.value.reshape([n for n in node.op.value.shape if n != 1])
        table = table if factors.flat(*axes) == (*query, *key) else table.T
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


Linear = tuple[int, int, int]  # how often there are the query's number, the key's, and 1


def _linear(
    node: Node, axes: Axes, factors: Factors, query: Ints, key: Ints, depth: int = 8
) -> Linear | None:
    """A sum of counters of queries and keys and of numbers, of few operations."""
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
