"""How many numbers a loss or metric is the mean of: what batches of different sizes weigh by."""

from __future__ import annotations

from math import isfinite
from typing import Any

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops.nn.class_loss import Classes
from xlac.ops.reduction.statistics import Mean, count
from xlac.ops.tensor.leaf import Const
from xlac.spec.report import Fault, Place

LARGEST_COUNT = 2**53  # beyond, numbers are not counted one by one
LINEAR = ("cast", "add", "sub", "neg", "mul", "div")


def mean_count(value: Node, batch: Dim) -> Dim | Node:
    """How many numbers a scalar is the mean of: those under `mean`; what a loss of classes divides
    by, where labels or class weights decide it; else the examples of the batch.

    Terms and factors beside one such loss (a regulariser) do not change what it is the mean of;
    several that divide by different numbers have none in common, and weigh as the examples.
    """
    node = value
    while node.op.mnemonic == "cast":
        node = node.inputs[0]
    if isinstance(node.op, Mean) and node.inputs[0].shape:
        return count(node.inputs[0], node.op.axis)
    found: dict[tuple[object, ...], Node] = {}
    pending, seen = [value], {value}
    while pending:
        node = pending.pop()
        op = node.op
        if isinstance(op, Classes) and op.reduction == "mean":
            number = op.counted(*node.inputs)
            if number is not None:
                found[op.ignore, *node.inputs[1:]] = number
        elif op.mnemonic in LINEAR or (isinstance(op, Mean) and not node.inputs[0].shape):
            new = [i for i in node.inputs if not i.shape and i not in seen]
            seen.update(new)
            pending += new
    return next(iter(found.values())) if len(found) == 1 else batch


def _constant(node: Node) -> Any:
    """The number that a scalar always is; None for one that depends on something."""
    while node.op.mnemonic == "cast":
        node = node.inputs[0]
    return node.op.value.item() if isinstance(node.op, Const) else None


def check_count(number: Node, place: Place) -> None:
    """Raises Fault for a count that is no number of anything, whatever the data are."""
    value = _constant(number)
    if value is not None and (isinstance(value, bool) or not 0 < value <= LARGEST_COUNT):
        shown = str(value).lower() if isinstance(value, bool) else value
        problem = f"a count is a number more than 0, found {shown}"
        raise Fault(
            "XL1012", problem, place.span, "count: sum(f32(mask)); mean(…) counts by itself"
        )


def check_finite(value: Node, place: Place) -> None:
    """Raises Fault for what is not finite, whatever the data are."""
    number = _constant(value)
    if isinstance(number, float) and not isfinite(number):
        raise Fault("XL1012", f"this is {number} for any data", place.span)
