"""Softmax, LogSoftmax and Hardmax: before operator set 13 over all axes from `axis` on, since then
over one.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build


def hardmax(x: Node, axis: int) -> Node:
    """One-hot of the first maximum along an axis."""
    first = build.apply1("argmax", x, axis=axis, keepdims=True)
    places = build.iota(x.shape, axis)
    return build.cast(build.compare(places, "eq", first), x.type.dtype)


def _softmax(x: Node, axis: int) -> Node:
    return build.apply1("softmax", x, axis=axis)


def _log_softmax(x: Node, axis: int) -> Node:
    return build.apply1("log_softmax", x, axis=axis)


def _register(name: str, along: Callable[[Node, int], Node]) -> None:
    @operator(name, since=1)
    def flattened(call: OperatorCall) -> Node:
        """Operator sets 1 and 11: x as a matrix whose rows are the axes from `axis` (default 1)
        on.
        """
        x = call[0]
        given = call.attr("axis", 1)
        axis = given if given == x.type.rank else normal_axis(given, x.type.rank)
        rows = build.reshape(x, (volume(x.shape[:axis]), volume(x.shape[axis:])))
        return build.reshape(along(rows, 1), x.shape)

    @operator(name, since=13)
    def single(call: OperatorCall) -> Node:
        """Operator set 13: along `axis` (default the last)."""
        x = call[0]
        return along(x, normal_axis(call.attr("axis", -1), x.type.rank))


_register("Softmax", _softmax)
_register("LogSoftmax", _log_softmax)
_register("Hardmax", hardmax)
