"""Batched loops, branches and calls: bodies are batched for the operands that are mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.batching.along import Along
from xlac.batching.bodies import Body, Walk, along, flags, spread, swap_leading_axes, where
from xlac.batching.bounded import batched_bounded, batched_while, counted_scan
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import results
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.walks import closed


def is_control(op: Op) -> bool:
    """Whether an operation is a loop, a branch, a call or one of the user's own."""
    custom = isinstance(op, CustomGradient | CustomOp)
    return custom or isinstance(op, Scan | Cond | Call | While | BoundedWhile | CountedScan)


def batched(node: Node, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """The batched results of a node, given its batched inputs `now`."""
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
        case CustomOp():
            return _hand_written(node, node.op, now, size, walk)
    raise AssertionError(node.op.mnemonic)


def _call(op: Call, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    assert op.body is not None
    body = Body(op.body, flags(now), size, walk)
    gives = flags(body.gives)
    return along(Node.of(replace(op, body=body.graph(gives)), *(n.node for n in now)), gives)


def _custom(op: CustomGradient, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """Results and cotangents are mapped; the cotangent of an operand that is not is summed over the
    batch.
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


def _hand_written(
    node: Node, op: CustomOp, now: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """One call over the batch, where the operation declares a size for it and every operand is
    mapped; else the meaning.
    """
    assert op.body is not None
    if not op.batch or not all(flags(now)):
        given = dict(zip(node.inputs, now, strict=True))
        return walk(given, size).run(op.expanded(*node.inputs))
    body = Body(op.body, flags(now), size, walk)
    gives = [True] * len(body.gives)
    sizes = tuple((n, size * e if n == op.batch else e) for n, e in op.sizes)
    return along(
        Node.of(replace(op, body=body.graph(gives), sizes=sizes), *(n.node for n in now)), gives
    )


def _branches(
    op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """One branch for all examples: a result has the batch axis where it does in any branch."""
    bodies = [Body(branch, flags(args), size, walk) for branch in op.branches]
    gives = [any(each) for each in zip(*(flags(body.gives) for body in bodies), strict=True)]
    new = replace(op, branches=tuple(body.graph(gives) for body in bodies))
    return along(Node.of(new, index, *(a.node for a in args)), gives)


def _every_branch(
    op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]
) -> list[Along]:
    """A branch index for each example: all branches are computed, and results selected. An index
    out of range selects the last branch.
    """
    every: list[list[Node]] = []
    for branch in op.branches:
        alongs = walk(dict(zip(branch.inputs, args, strict=True)), size).run(
            branch.outputs.values()
        )
        every.append([each.spread(size) for each in alongs])
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
        *(swap_leading_axes(x.node) if x.mapped else x.node for x in xs),
        *(r.node for r in fixed),
    ]
    new = results(Node.of(replace(op, body=body.graph(gives)), *inputs))
    return [
        Along(swap_leading_axes(each) if on and n >= op.carries else each, on)
        for n, (each, on) in enumerate(zip(new, gives, strict=True))
    ]
