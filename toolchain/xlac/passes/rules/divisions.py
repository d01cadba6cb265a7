"""Replaces divisions of many elements by one number by multiplications with its reciprocal."""

from __future__ import annotations

import numpy as np

from xlac.ir.dims import bounds
from xlac.ir.graph import Node
from xlac.ops.scalar.arithmetic import Div, Mul
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.rule import Site, constant, fill, rule
from xlac.passes.rules.views import broadcast


@rule(
    Div, examples=[lambda p: Node.of(Div(), p(3, 4), broadcast(p(3), (3, 4), (0,)))], rounding=True
)
def divide_by_repeated(node: Node, site: Site) -> Node | None:
    """x / broadcast(y) becomes x times the broadcast reciprocal of y, which has fewer elements. It
    rounds twice.
    """
    x, by = node.inputs
    if not node.type.dtype.is_float or not isinstance(by.op, Broadcast) or constant(by) is not None:
        return None
    (y,) = by.inputs
    if bounds(node.type.size - y.type.size * 2)[0] < 0:
        return None
    one = fill(np.ones((), node.type.dtype.numpy), y, site)
    return site.make(Mul(), x, site.make(by.op, site.make(Div(), one, y)))


DIVISIONS = (divide_by_repeated,)
