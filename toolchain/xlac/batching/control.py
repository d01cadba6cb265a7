"""Loops, branches and calls along a leading axis: bodies are batched for what goes into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from xlac.autodiff.walks import closed, fresh, substituted
from xlac.batching.along import Along
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.leading import results
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.control import Call, Cond, Scan, While


class Walk(Protocol):
    """`walk.Batch`: what batches a body."""

    def __init__(self, given: Mapping[Node, Along], size: Dim) -> None: ...

    def run(self, roots: Iterable[Node]) -> list[Along]:
        """What roots are now."""


def is_control(op: Op) -> bool:
    """Whether an operation runs bodies as a whole."""
    return isinstance(op, Scan | Cond | Call | While)


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
            return _while(node.op, now, size, walk)
    raise AssertionError(node.op.mnemonic)


class Body:
    """A body for values of which some are mapped: its new parameters, and what it gives of them."""

    def __init__(self, body: Graph, mapped: Sequence[bool], size: Dim, walk: type[Walk]) -> None:
        types = [
            i.type.with_shape((size, *i.shape)) if on else i.type
            for i, on in zip(body.inputs, mapped, strict=True)
        ]
        self._name, self._size = body.name, size
        self.params = fresh(types)
        given = {
            i: Along(param, on)
            for i, param, on in zip(body.inputs, self.params, mapped, strict=True)
        }
        self.gives = walk(given, size).run(body.outputs.values())

    def graph(self, mapped: Sequence[bool]) -> Graph:
        """The body, whose results are along the axis where `mapped` says so."""
        outputs = [
            each.spread(self._size) if on else each.node
            for each, on in zip(self.gives, mapped, strict=True)
        ]
        return closed(self._name, self.params, outputs)


def _flags(values: Sequence[Along]) -> list[bool]:
    return [each.mapped for each in values]


def _as(values: Sequence[Along], mapped: Sequence[bool], size: Dim) -> list[Node]:
    return [v.spread(size) if on else v.node for v, on in zip(values, mapped, strict=True)]


def _along(node: Node, mapped: Sequence[bool]) -> list[Along]:
    return [Along(each, on) for each, on in zip(results(node), mapped, strict=True)]


def _call(op: Call, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    assert op.body is not None
    body = Body(op.body, _flags(now), size, walk)
    gives = _flags(body.gives)
    return _along(Node.of(replace(op, body=body.graph(gives)), *(n.node for n in now)), gives)


def _branches(op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:  # fmt: skip
    """One branch for all: its results are along the axis where those of any branch are."""
    bodies = [Body(branch, _flags(args), size, walk) for branch in op.branches]
    gives = [any(each) for each in zip(*(_flags(body.gives) for body in bodies), strict=True)]
    new = replace(op, branches=tuple(body.graph(gives) for body in bodies))
    return _along(Node.of(new, index, *(a.node for a in args)), gives)


def _every_branch(op: Cond, index: Node, args: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:  # fmt: skip
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
        chosen = [_where(asked, own, other) for own, other in zip(values, chosen, strict=True)]
    return [Along(each, True) for each in chosen]


def _where(condition: Node, x: Node, y: Node) -> Node:
    """x where a condition along the leading axis holds, else y."""
    return build.select(build.spread(condition, x.shape, (0,)), x, y)


def _scan(op: Scan, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    assert op.body is not None
    carry, scanned, rest = ([*part] for part in op.parts(_flags(now)))
    while True:  # until no more carried values get the axis
        body = Body(op.body, [*carry, *scanned, *rest], size, walk)
        gives = _flags(body.gives)
        more = [on or new for on, new in zip(carry, gives, strict=False)]
        if more == carry:
            break
        carry = more
    gives = [*carry, *gives[op.carries :]]
    first, xs, fixed = op.parts(list(now))
    inputs = [
        *_as(first, carry, size),
        *(_exchanged(x.node) if x.mapped else x.node for x in xs),
        *(r.node for r in fixed),
    ]
    new = results(Node.of(replace(op, body=body.graph(gives)), *inputs))
    return [
        Along(_exchanged(each) if on and n >= op.carries else each, on)
        for n, (each, on) in enumerate(zip(new, gives, strict=True))
    ]


def _exchanged(x: Node) -> Node:
    """The first two axes exchanged."""
    return build.transpose(x, (1, 0, *range(2, x.type.rank)))


def _while(op: While, now: Sequence[Along], size: Dim, walk: type[Walk]) -> list[Along]:
    """Where the condition is another for each, the loop runs until none goes on; those that are done
    keep what they have.
    """
    assert op.cond is not None and op.body is not None
    carry = _flags(now)
    while True:
        test, body = (Body(graph, carry, size, walk) for graph in (op.cond, op.body))
        apart = test.gives[0].mapped
        more = [True] * len(carry) if apart else [a or b for a, b in zip(carry, _flags(body.gives), strict=True)]  # fmt: skip
        if more == carry:
            break
        carry = more
    first = _as(now, carry, size)
    if not apart:
        new = replace(op, cond=test.graph([False]), body=body.graph(carry))
        return _along(Node.of(new, *first), carry)
    going = test.gives[0].node
    some = closed(op.cond.name, test.params, [build.reduce(going, "or")])
    (own,) = substituted([going], dict(zip(test.params, body.params, strict=True)))
    kept = [
        _where(own, each.spread(size), before)
        for each, before in zip(body.gives, body.params, strict=True)
    ]
    new = replace(op, cond=some, body=closed(op.body.name, body.params, kept))
    return _along(Node.of(new, *first), carry)
