"""How many numbers a loss or metric is the mean of: what batches of different sizes weigh by."""

from __future__ import annotations

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops.nn.class_loss import Classes
from xlac.ops.reduction.statistics import Mean, count

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
