"""Layers of several tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from xlac.frontends.keras.call import LayerCall, listed
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build


def _merged(call: LayerCall, combine: Callable[[Node, Node], Node]) -> Node:
    if len(call.inputs) < 2:
        call.fail(f"it takes at least two tensors, and is called with {len(call.inputs)}")
    if len({x.type.rank for x in call.inputs}) > 1:
        call.unsupported("tensors of different ranks are not supported")
    return reduce(combine, call.inputs)


@layer("Add")
def add(call: LayerCall) -> Node:
    """The sum."""
    return _merged(call, build.add)


@layer("Subtract")
def subtract(call: LayerCall) -> Node:
    """The first less the second."""
    if len(call.inputs) != 2:
        call.fail(f"it takes two tensors, and is called with {len(call.inputs)}")
    return _merged(call, build.sub)


@layer("Multiply")
def multiply(call: LayerCall) -> Node:
    """The product."""
    return _merged(call, build.mul)


@layer("Average")
def average(call: LayerCall) -> Node:
    """The mean."""
    return build.div(_merged(call, build.add), float(len(call.inputs)))


@layer("Maximum")
def maximum(call: LayerCall) -> Node:
    """The largest."""
    return _merged(call, build.maximum)


@layer("Minimum")
def minimum(call: LayerCall) -> Node:
    """The smallest."""
    return _merged(call, build.minimum)


@layer("Concatenate")
def concatenate(call: LayerCall) -> Node:
    """One after another along an axis."""
    if not call.inputs:
        call.fail("it takes at least one tensor")
    rank = call.inputs[0].type.rank
    return build.concat(call.inputs, call.axis("axis", rank, -1))


@layer("Dot")
def dot(call: LayerCall) -> Node:
    """The product of two tensors over an axis of each; axis 0 is the batch."""
    if len(call.inputs) != 2:
        call.fail(f"it takes two tensors, and is called with {len(call.inputs)}")
    x, y = call.inputs
    axes = listed(call.get("axes", -1))
    one, two = axes if len(axes) == 2 else axes * 2
    if not (one % x.type.rank > 0 and two % y.type.rank > 0):
        call.fail(f"axes {axes} are those of the batch")
    one, two = one % x.type.rank, two % y.type.rank
    if call.flag("normalize"):
        x, y = (
            build.apply1("normalize", side, axis=axis, epsilon=1e-6)
            for side, axis in ((x, one), (y, two))
        )
    product = build.dot(x, y, ((one,), (two,)), ((0,), (0,)))
    return build.reshape(product, (product.shape[0], 1)) if product.type.rank == 1 else product
