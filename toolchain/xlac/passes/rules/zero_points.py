"""Simplifies zero points: a uniform vector becomes a number, and adding 0 before a cast to integers
is removed.

Quantizers often write a zero point for each channel, all of them 0, as a weight.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node, walk
from xlac.ops.scalar.arithmetic import Add, Round, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Parameter, Site, constant, fill, rule
from xlac.passes.rules.requantize import numbers
from xlac_sdk.dtypes import DType


def _less(p: Parameter, kind: type[Add | Sub], zeros: list[int]) -> Node:
    vector = Node.of(Const(np.asarray(zeros, np.int16)))
    return Node.of(kind(), p(4, 3, dtype=DType.I16), Node.of(Broadcast((4, 3), (1,)), vector))


@rule(
    Add,
    Sub,
    examples=[
        lambda p: _less(p, Sub, [0, 0, 0]),
        lambda p: _less(p, Sub, [-7, -7, -7]),
        lambda p: _less(p, Add, [5, 5, 5]),
    ],
)
def uniform_zero_point(node: Node, site: Site) -> Node | None:
    """A vector of equal integers becomes a number."""
    x, by = node.inputs
    if not node.type.dtype.is_integer or node.type.dtype is DType.BOOL:
        return None
    if not isinstance(by.op, Broadcast) or by.inputs[0].type.size == 1:
        return None
    values = numbers(by, site)
    if values is None or not values.size or values.min() != values.max():
        return None
    return site.make(node.op, x, fill(values.reshape(-1)[:1].reshape(()), x, site))


def _shifted(p: Parameter, to: DType) -> Node:
    x = Node.of(Round(), p(4, 3))
    zero = Node.of(Broadcast((4, 3), ()), Node.of(Const(np.zeros((), np.float32))))
    return Node.of(Cast(to), Node.of(Add(), x, zero))


@rule(Cast, examples=[lambda p: _shifted(p, DType.U8), lambda p: _shifted(p, DType.I8)])
def nothing_added_before_integers(node: Node, site: Site) -> Node | None:
    """Removes the addition of zeros before a cast to integers, which would only turn -0 into 0."""
    (total,) = node.inputs
    if not isinstance(total.op, Add) or not node.type.dtype.is_integer:
        return None
    if not total.type.dtype.is_float or node.type.dtype is DType.BOOL:
        return None
    for x, by in (total.inputs, total.inputs[::-1]):
        if (number := constant(by)) is not None and number == 0:
            return site.make(node.op, x)
    return None


def _terms(p: Parameter) -> Node:
    """An example: sums minus a vector for zero points, plus a bias vector."""
    less, bias = (
        Node.of(Broadcast((4, 3), (1,)), p(3, dtype=DType.I32, kind="weight")) for _ in range(2)
    )
    return Node.of(Add(), Node.of(Sub(), p(4, 3, dtype=DType.I32), less), bias)


@rule(Add, examples=[_terms])
def known_terms_joined(node: Node, site: Site) -> Node | None:
    """Integers minus a known vector plus another become integers plus one vector."""
    for inner, bias in (node.inputs, node.inputs[::-1]):
        if not isinstance(inner.op, Sub) or not node.type.dtype.is_integer:
            continue
        x, less = inner.inputs
        if not isinstance(less.op, Broadcast) or less.op != bias.op or not site.single(inner):
            continue
        (a,), (b,) = less.inputs, bias.inputs
        if a.type != b.type or not (_depends_on_weights(a) and _depends_on_weights(b)):
            continue
        return site.make(Add(), x, site.make(less.op, site.make(Sub(), b, a)))
    return None


def _depends_on_weights(node: Node) -> bool:
    """Whether a value depends on weights and constants only."""
    return all(
        isinstance(one.op, Const) or (isinstance(one.op, Param) and one.op.kind == "weight")
        for one in walk([node])
        if not one.inputs
    )


ZERO_POINTS = (uniform_zero_point, nothing_added_before_integers, known_terms_joined)
