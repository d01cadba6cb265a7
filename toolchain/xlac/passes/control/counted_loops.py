"""Analyses how a loop counts: what its condition compares, the step, the number of iterations."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.graph import Node
from xlac.ops.scalar.arithmetic import Add, Sub
from xlac.ops.scalar.comparison import Compare
from xlac.ops.tensor.leaf import Const

FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}


def number(node: Node, known: Mapping[Node, Node]) -> int | None:
    """The value of an integer constant."""
    node = known.get(node, node)
    if not isinstance(node.op, Const) or node.type.rank or not node.type.dtype.is_integer:
        return None
    return int(node.op.value)


def limit_of(test: Node, known: Mapping[Node, Node]) -> tuple[Node, str, int] | None:
    """The comparison of a loop's condition with a constant: counter, direction, and number."""
    if not isinstance(test.op, Compare) or not test.inputs[0].type.dtype.is_integer:
        return None
    left, right = test.inputs
    direction = test.op.direction
    if number(left, known) is not None:
        left, right, direction = right, left, FLIPPED.get(direction, "")
    limit = number(right, known)
    if limit is None or direction not in FLIPPED:
        return None
    return left, direction, limit


def step_of(next: Node, counter: Node, known: Mapping[Node, Node]) -> int | None:
    """The constant that each iteration adds to the counter."""
    if not isinstance(next.op, Add | Sub):
        return None
    left, right = next.inputs
    if right is counter and isinstance(next.op, Add):
        left, right = right, left
    amount = number(right, known)
    if left is not counter or amount is None:
        return None
    return amount if isinstance(next.op, Add) else -amount


def length_of(start: int, step: int, direction: str, limit: int) -> int | None:
    """The number of iterations until the condition is false; None if it never is, or only after the
    counter wraps around.
    """
    match direction:
        case "ne":
            if start == limit:
                return 0
            whole, rest = divmod(limit - start, step) if step else (0, 1)
            return whole if not rest and whole > 0 else None
        case "le":
            limit += 1
        case "ge":
            limit -= 1
    upwards = direction in ("lt", "le")
    if (start >= limit) if upwards else (start <= limit):
        return 0
    if (step <= 0) if upwards else (step >= 0):
        return None
    return -(-(limit - start) // step)
