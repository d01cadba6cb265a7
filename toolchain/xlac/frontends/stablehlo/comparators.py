"""Recognizes comparators of sorts that are plain orders: ascending or descending, by one key or
several.

Clients write the order that puts NaN last and treats -0 as 0 as a total-order comparison of
canonicalized keys: `select(x != x, NaN, select(x == 0, 0, x))`. That is the order of xlac's sort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.graph import Graph, Node
from xlac.ops.scalar import arithmetic, comparison
from xlac.ops.scalar.convert import Bitcast
from xlac.ops.tensor.leaf import Const
from xlac_sdk.dtypes import DType

Order = tuple[bool, int]
"""Whether the order is descending, and its number of keys."""


def order(body: Graph) -> Order | None:
    """The order that a comparator of (x0, y0, x1, y1, …) implements, or None."""
    (output,) = body.outputs.values()
    matched = _keys(output, body.inputs, 0)
    return matched if matched and 2 * matched[1] <= len(body.inputs) else None


def _keys(node: Node, inputs: Sequence[Node], first: int) -> Order | None:
    """Matches `first < second` on one key, or lexicographically on several."""
    plain = _direction(node, inputs, first)
    if plain is not None:
        return plain, 1
    if not isinstance(node.op, arithmetic.Or):
        return None
    for before, rest in (node.inputs, node.inputs[::-1]):
        down = _direction(before, inputs, first)
        if down is None or not isinstance(rest.op, arithmetic.And):
            continue
        for equal, later in (rest.inputs, rest.inputs[::-1]):
            matched = _keys(later, inputs, first + 1)
            if _compared(equal, inputs, first) == "eq" and matched and matched[0] is down:
                return down, matched[1] + 1
    return None


def _direction(node: Node, inputs: Sequence[Node], key: int) -> bool | None:
    return {"lt": False, "gt": True}.get(_compared(node, inputs, key))


def _compared(node: Node, inputs: Sequence[Node], key: int) -> str:
    """The direction of a comparison of the two values of a key; "" for any other node."""
    if not isinstance(node.op, comparison.Compare) or len(inputs) < 2 * key + 2:
        return ""
    pair = inputs[2 * key], inputs[2 * key + 1]
    sides = tuple(_plain(side) for side in node.inputs)
    return node.op.direction if sides == pair and pair[0].type.dtype is not DType.BOOL else ""


def _plain(node: Node) -> Node:
    """The float from which one side of a comparison was computed, or the node itself."""
    ranked = _ranked(node)
    return node if ranked is None else _canonical(ranked)


def _ranked(node: Node) -> Node | None:
    """The float of which the node computes the total-order integer: its bits, inverted below the
    sign if negative.
    """
    if not isinstance(node.op, comparison.Select):
        return None
    test, _, bits = node.inputs
    if (
        not isinstance(bits.op, Bitcast)
        or not isinstance(test.op, comparison.Compare)
        or test.inputs[0] is not bits
    ):
        return None
    return bits.inputs[0]


def _canonical(node: Node) -> Node:
    """x for `select(x != x, NaN, select(x == 0, 0, x))`; any other node itself."""
    if not isinstance(node.op, comparison.Select) or not isinstance(
        node.inputs[2].op, comparison.Select
    ):
        return node
    unordered, nan, inner = node.inputs
    zero, nothing, x = inner.inputs
    fits = _is(unordered, "ne", x, x) and math.isnan(_number(nan)) and _number(nothing) == 0
    return (
        x
        if fits
        and isinstance(zero.op, comparison.Compare)
        and zero.op.direction == "eq"
        and _zero_test(zero, x)
        else node
    )


def _is(node: Node, direction: str, x: Node, y: Node) -> bool:
    return (
        isinstance(node.op, comparison.Compare)
        and node.op.direction == direction
        and node.inputs == (x, y)
    )


def _zero_test(node: Node, x: Node) -> bool:
    return node.inputs[0] is x and _number(node.inputs[1]) == 0


def _number(node: Node) -> float:
    """The value of a constant; 1 for any other node."""
    value = node.op.uniform if isinstance(node.op, Const) else None
    return 1.0 if value is None else float(value)
