"""Training mode of loops, branches and calls: random numbers and running statistics inside bodies.

Each body gets a u64 parameter that its random numbers are counted by: a loop derives one for each
iteration from its counter. Running statistics that a body updates become results: loops carry them
from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.graph import Graph, Node, apply, pick
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.walks import closed, fresh
from xlac.support.keys import philox_key
from xlac_sdk.dtypes import DType

Run = Callable[[Graph, Node], tuple[list[Node], Mapping[Node, Node]]]
"""Puts a body into training mode, given its random counter, a u64 scalar: its outputs, and the next
values of the running statistics among its parameters.
"""
STREAM, ITERATION = Type(DType.U64), Type(DType.I64)


@dataclass
class ControlInTraining:
    """The results of a control operation in training mode, and the next values of those operands
    that are running statistics.
    """

    results: list[Node]
    measured: dict[Node, Node]


def in_training_mode(node: Node, stream: Node, run: Run) -> ControlInTraining | None:
    """A control operation in training mode, given its random counter, a u64 scalar. None for other
    kinds of operations, and where a body updates a statistic that is not one of its operands.
    """
    match node.op:
        case Scan():
            return _scan(node, node.op, stream, run)
        case While() | BoundedWhile():
            return _while(node, node.op, stream, run)
        case Cond(branches=branches):
            return _branches(node, branches, node.inputs[:1], stream, run)
        case Call(body=Graph() as body):
            return _branches(node, [body], (), stream, run)
    return None


def _iteration_stream(stream: Node, iteration: Node, path: str) -> Node:
    """The random counter of one iteration: a word of philox keyed by the loop's counter, the
    iteration and the loop's path.
    """
    words = [
        stream,
        build.cast(iteration, DType.U64),
        build.constant(np.uint64(philox_key(0, path) & (1 << 64) - 1)),
    ]
    state = build.concat([build.reshape(word, (1,)) for word in words])
    bits = apply("rng_bits", state, algorithm="philox", shape=(1,), dtype=DType.U64)
    return build.reshape(pick(bits, 1), ())


def _stopped(values: Mapping[Node, Node]) -> dict[Node, Node]:
    """Running statistics, through which nothing is differentiated."""
    return {old: build.apply1("stop_gradient", new) for old, new in values.items()}


def _scan(node: Node, op: Scan, stream: Node, run: Run) -> ControlInTraining | None:
    assert op.body is not None
    body, count = op.body, op.carries
    iteration, counter = fresh([ITERATION, STREAM], "draw")
    outputs, statistics = run(body, _iteration_stream(counter, iteration, node.name))
    measured = _stopped(statistics)
    carry, xs, rest = op.parts(body.inputs)
    outer = dict(zip(body.inputs, node.inputs, strict=True))
    if not set(measured) <= set(rest):
        return None
    others = [r for r in rest if r not in measured]
    new = replace(
        op,
        carries=count + len(measured),
        scanned=op.scanned + 1,
        body=closed(
            body.name,
            [*carry, *measured, *xs, iteration, *others, counter],
            [*outputs[:count], *measured.values(), *outputs[count:]],
        ),
    )
    iterations = build.cast(build.iota((op.length,), 0), DType.I64)
    scan = Node.of(
        new,
        *(outer[p] for p in (*carry, *measured, *xs)),
        iterations,
        *(outer[p] for p in others),
        stream,
        origin=node.origin,
    )
    results = [pick(scan, n) for n in range(len(scan.results))]
    end = count + len(measured)
    after = dict(zip((outer[p] for p in measured), results[count:end], strict=True))
    return ControlInTraining([*results[:count], *results[end:]], after)


def _while(
    node: Node, op: While | BoundedWhile, stream: Node, run: Run
) -> ControlInTraining | None:
    """Statistics have to be carried values that the body passes on unchanged in inference mode."""
    assert op.body is not None and op.cond is not None
    body, count = op.body, len(node.inputs)
    iteration, counter = fresh([ITERATION, STREAM], "draw")
    outputs, statistics = run(body, _iteration_stream(counter, iteration, node.name))
    measured = _stopped(statistics)
    places = {p: n for n, p in enumerate(body.inputs) if p in measured}
    if len(places) < len(measured) or any(outputs[n] is not p for p, n in places.items()):
        return None
    for param, place in places.items():
        outputs[place] = measured[param]
    test = closed(
        op.cond.name,
        [*op.cond.inputs, *fresh([ITERATION, STREAM], "draw")],
        list(op.cond.outputs.values()),
    )
    gives = [*outputs[:count], build.add(iteration, 1), counter, *outputs[count:]]
    new = replace(op, cond=test, body=closed(body.name, [*body.inputs, iteration, counter], gives))
    zero = build.constant(0, DType.I64)
    loop = Node.of(new, *node.inputs, zero, stream, origin=node.origin)
    results = [pick(loop, n) for n in range(len(loop.results))]
    after = {node.inputs[n]: results[n] for n in places.values()}
    return ControlInTraining([*results[:count], *results[count + 2 :]], after)


def _branches(
    node: Node, bodies: Sequence[Graph], first: tuple[Node, ...], stream: Node, run: Run
) -> ControlInTraining | None:
    """Each branch returns all statistics; those that it does not update, unchanged."""
    args, count = node.inputs[len(first) :], len(node.results)
    counter = fresh([STREAM], "draw")
    runs = [run(body, counter[0]) for body in bodies]
    places = sorted(
        {
            n
            for body, (_, statistics) in zip(bodies, runs, strict=True)
            for n, p in enumerate(body.inputs)
            if p in statistics
        }
    )
    if sum(len(statistics) for _, statistics in runs) > len(places) * len(bodies):
        return None
    new = [
        closed(
            body.name,
            [*body.inputs, *counter],
            [*outputs, *(_stopped(statistics).get(body.inputs[n], body.inputs[n]) for n in places)],
        )
        for body, (outputs, statistics) in zip(bodies, runs, strict=True)
    ]
    op = Cond(tuple(new)) if first else Call(new[0])
    branches = Node.of(op, *first, *args, stream, origin=node.origin)
    results = [pick(branches, n) for n in range(len(branches.results))]
    after = {args[n]: results[count + k] for k, n in enumerate(places)}
    return ControlInTraining(results[:count], after)
