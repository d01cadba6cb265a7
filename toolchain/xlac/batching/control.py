"""Loops, branches and calls along a leading axis: bodies are batched for what goes into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.batching.along import Along
from xlac.batching.bodies import Body, Walk, along, exchanged, flags, spread, where
from xlac.batching.bounded import batched_bounded, batched_while, counted_scan
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import results
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.walks import closed


def is_control(op: Op) -> bool:
    """Whether an operation runs bodies as a whole."""
    return isinstance(op, Scan | Cond | Call | While | BoundedWhile | CountedScan | CustomGradient)


def batched(node: Node, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """The results of a node from its inputs as they are now."""
    match node.op:
        case Scan():
            return _scan(node.op, now, size, walk)
        case Cond():
            index, *args = now
            if index.mapped:
                return _every_branch(node.op, index.node, args, size, walk)
            return _branches(node.op, index.node, args, size, walk)
        case Call():
            return _call(node.op, now, size, walk)
        case While():
            return batched_while(node.op, now, size, walk)
        case BoundedWhile():
            return batched_bounded(node.op, now, size, walk)
        case CountedScan():
            return counted_scan(node.op, now, size, walk)
        case CustomGradient():
            return _custom(node.op, now, size, walk)
    raise AssertionError(node.op.mnemonic)


def _call(op: Call, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    assert op.body is not None
    body = Body(op.body, flags(now), size, walk)
    gives = flags(body.gives)
    return along(Node.of(replace(op, body=body.graph(gives)), *(n.node for n in now)), gives)


def _custom(op: CustomGradient, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """Every example has results and cotangents of its own; an operand that all share has the sum of
    what it has of each.
    """
    assert op.body is not None and op.gradient is not None
    mapped = flags(now)
    body = Body(op.body, mapped, size, walk)
    apart = [True] * len(body.gives)
    cotangents = len(op.gradient.inputs) - len(mapped) - len(apart)
    back = Body(op.gradient, [*mapped, *apart, *[True] * cotangents], size, walk)
    wanted = [on for on, i in zip(mapped, op.body.inputs, strict=True) if i.type.dtype.is_float]
    each = [ct.spread(size) for ct in back.gives]
    parts = [
        ct if on else build.reduce(ct, "add", [0]) for ct, on in zip(each, wanted, strict=True)
    ]
    new = CustomGradient(body.graph(apart), closed(back.name, back.params, parts), op.name)
    return along(Node.of(new, *(n.node for n in now)), apart)


def _branches(
    op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """One branch for all: its results are along the axis where those of any branch are."""
    bodies = [Body(branch, flags(args), size, walk) for branch in op.branches]
    gives = [any(each) for each in zip(*(flags(body.gives) for body in bodies), strict=True)]
    new = replace(op, branches=tuple(body.graph(gives) for body in bodies))
    return along(Node.of(new, index, *(a.node for a in args)), gives)


def _every_branch(
    op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """A branch for each: all are computed, and what is asked for is chosen. What is out of range
    runs the last.
    """
    every: list[list[Node]] = []
    for branch in op.branches:
        found = walk(dict(zip(branch.inputs, args, strict=True)), size).run(branch.outputs.values())
        every.append([each.spread(size) for each in found])
    chosen = every[-1]
    for number, values in enumerate(every[:-1]):
        asked = build.compare(index, "eq", number)
        chosen = [where(asked, own, other) for own, other in zip(values, chosen, strict=True)]
    return [Along(each, True) for each in chosen]


def _scan(op: Scan, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    assert op.body is not None
    carry, scanned, rest = ([*part] for part in op.parts(flags(now)))
    while True:  # until no more carried values get the axis
        body = Body(op.body, [*carry, *scanned, *rest], size, walk)
        gives = flags(body.gives)
        more = [on or new for on, new in zip(carry, gives, strict=False)]
        if more == carry:
            break
        carry = more
    gives = [*carry, *gives[op.carries :]]
    first, xs, fixed = op.parts(list(now))
    inputs = [
        *spread(first, carry, size),
        *(exchanged(x.node) if x.mapped else x.node for x in xs),
        *(r.node for r in fixed),
    ]
    new = results(Node.of(replace(op, body=body.graph(gives)), *inputs))
    return [
        Along(exchanged(each) if on and n >= op.carries else each, on)
        for n, (each, on) in enumerate(zip(new, gives, strict=True))
    ]
