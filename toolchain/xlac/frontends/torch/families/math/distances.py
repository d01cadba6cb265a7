"""Gradients of distances between rows. Equal rows have a gradient of zero, as in PyTorch."""

from __future__ import annotations

import math

import numpy as np

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node
from xlac.ops import build


def slopes(gap: Node, distance: Node, p: float, grad: Node) -> Node:
    """grad times the derivative of the p-norm of `gap` along its last axis; `distance` and `grad`
    have that axis with size 1.
    """
    distance, grad = (build.broadcast_to(v, gap.shape) for v in (distance, grad))
    size, sign = build.apply1("abs", gap), build.apply1("sign", gap)
    if p == 0:
        return build.like(0, gap)
    if p == 1:
        return build.mul(sign, grad)
    if p == math.inf:
        return build.select(build.compare(size, "eq", distance), build.mul(sign, grad), 0.0)
    none = build.compare(distance, "eq", 0.0)
    if p < 1:
        none = build.apply1("or", none, build.compare(size, "eq", 0.0))
    safe, own = (build.select(none, 1.0, v) for v in (distance, size))
    ratio = (
        build.div(own, safe)
        if p == 2
        else build.apply1("pow", build.div(own, safe), build.like(p - 1, gap))
    )
    return build.select(none, 0.0, build.mul(build.mul(sign, ratio), grad))


@aten("_cdist_backward")
def cdist_backward(call: AtenCall, grad: Node, x1: Node, x2: Node, p: float, cdist: Node) -> Node:
    """The gradient of cdist for x1: distances between all rows of x1 and all rows of x2."""
    gap = build.sub(
        build.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])),
        build.reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:])),
    )
    distance, given = (build.reshape(v, (*v.shape, 1)) for v in (cdist, grad))
    return build.reduce(slopes(gap, distance, float(p), given), "add", gap.type.rank - 2)


@aten("_pdist_backward")
def pdist_backward(call: AtenCall, grad: Node, x: Node, p: float, pdist: Node) -> Node:
    """The gradient of pdist: distances between all pairs of rows."""
    rows = x.shape[0]
    if not isinstance(rows, int):
        raise NotExpressible(f"pairs among {rows} rows")
    pairs = [part.astype(np.int64).reshape(-1, 1) for part in np.triu_indices(rows, 1)]
    zero = build.full(0, call.shape, call.dtype)
    if not len(pairs[0]):
        return zero
    first, second = (build.take(x, build.constant(part[:, 0]), 0) for part in pairs)
    columns = [build.reshape(v, (*v.shape, 1)) for v in (pdist, grad)]
    gradients = slopes(build.sub(first, second), columns[0], float(p), columns[1])
    there = build.apply1("scatter_nd", zero, build.constant(pairs[0]), gradients, combine="add")
    back = build.apply1("scatter_nd", zero, build.constant(pairs[1]), gradients, combine="add")
    return build.sub(there, back)
