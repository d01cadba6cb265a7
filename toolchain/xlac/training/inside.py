"""Loops, branches and calls while a model learns: what is drawn and measured inside of them.

Each body gets the number that draws of its nodes are counted by: that of around it, which a loop mixes
with its turn. What is measured inside comes out: loops carry it from turn to turn.
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
"""The outputs of a body in training mode, and the next values of what it measures, whose draws are
counted by a u64 scalar.
"""
STREAM, TURN = Type(DType.U64), Type(DType.I64)


@dataclass
class Trained:
    """The results of a control operation in training mode, and the next values of operands that are
    measured in it.
    """

    results: list[Node]
    measured: dict[Node, Node]


def trained(node: Node, stream: Node, run: Run) -> Trained | None:
    """A control operation whose bodies draw or measure; None for any other that has bodies, and where
    a body measures what is no tensor of around it.
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


def _mixed(stream: Node, turn: Node, path: str) -> Node:
    """What draws of a turn are counted by: a word of philox, keyed by what those around it are."""
    words = [
        stream,
        build.cast(turn, DType.U64),
        build.constant(np.uint64(philox_key(0, path) & (1 << 64) - 1)),
    ]
    state = build.concat([build.reshape(word, (1,)) for word in words])
    bits = apply("rng_bits", state, algorithm="philox", shape=(1,), dtype=DType.U64)
    return build.reshape(pick(bits, 1), ())


def _fixed(values: Mapping[Node, Node]) -> dict[Node, Node]:
    """What is measured: nothing is differentiated through it."""
    return {old: build.apply1("stop_gradient", new) for old, new in values.items()}


def _scan(node: Node, op: Scan, stream: Node, run: Run) -> Trained | None:
    assert op.body is not None
    body, count = op.body, op.carries
    turn, own = fresh([TURN, STREAM], "draw")
    outputs, found = run(body, _mixed(own, turn, node.name))
    measured = _fixed(found)
    carry, xs, rest = op.parts(body.inputs)
    outer = dict(zip(body.inputs, node.inputs, strict=True))
    if not set(measured) <= set(rest):
        return None
    others = [r for r in rest if r not in measured]
    new = replace(
        op, carries=count + len(measured), scanned=op.scanned + 1,
        body=closed(
            body.name, [*carry, *measured, *xs, turn, *others, own],
            [*outputs[:count], *measured.values(), *outputs[count:]],
        ),
    )  # fmt: skip
    turns = build.cast(build.iota((op.length,), 0), DType.I64)
    made = Node.of(
        new, *(outer[p] for p in (*carry, *measured, *xs)), turns, *(outer[p] for p in others), stream,
        origin=node.origin,
    )  # fmt: skip
    results = [pick(made, n) for n in range(len(made.results))]
    end = count + len(measured)
    after = dict(zip((outer[p] for p in measured), results[count:end], strict=True))
    return Trained([*results[:count], *results[end:]], after)


def _while(node: Node, op: While | BoundedWhile, stream: Node, run: Run) -> Trained | None:
    """What is measured passes through the loop as it is otherwise."""
    assert op.body is not None and op.cond is not None
    body, count = op.body, len(node.inputs)
    turn, own = fresh([TURN, STREAM], "draw")
    outputs, found = run(body, _mixed(own, turn, node.name))
    measured = _fixed(found)
    places = {p: n for n, p in enumerate(body.inputs) if p in measured}
    if len(places) < len(measured) or any(outputs[n] is not p for p, n in places.items()):
        return None
    for param, place in places.items():
        outputs[place] = measured[param]
    test = closed(op.cond.name, [*op.cond.inputs, *fresh([TURN, STREAM], "draw")], list(op.cond.outputs.values()))  # fmt: skip
    gives = [*outputs[:count], build.add(turn, 1), own, *outputs[count:]]
    new = replace(op, cond=test, body=closed(body.name, [*body.inputs, turn, own], gives))
    zero = build.constant(0, DType.I64)
    made = Node.of(new, *node.inputs, zero, stream, origin=node.origin)
    results = [pick(made, n) for n in range(len(made.results))]
    after = {node.inputs[n]: results[n] for n in places.values()}
    return Trained([*results[:count], *results[count + 2 :]], after)


def _branches(
    node: Node, bodies: Sequence[Graph], first: tuple[Node, ...], stream: Node, run: Run
) -> Trained | None:
    """A branch gives what it does not measure itself as it was."""
    args, count = node.inputs[len(first) :], len(node.results)
    own = fresh([STREAM], "draw")
    runs = [run(body, own[0]) for body in bodies]
    places = sorted({
        n for body, (_, found) in zip(bodies, runs, strict=True)
        for n, p in enumerate(body.inputs) if p in found
    })  # fmt: skip
    if sum(len(found) for _, found in runs) > len(places) * len(bodies):
        return None
    new = [
        closed(
            body.name, [*body.inputs, *own],
            [*outputs, *(_fixed(found).get(body.inputs[n], body.inputs[n]) for n in places)],
        )
        for body, (outputs, found) in zip(bodies, runs, strict=True)
    ]  # fmt: skip
    op = Cond(tuple(new)) if first else Call(new[0])
    made = Node.of(op, *first, *args, stream, origin=node.origin)
    results = [pick(made, n) for n in range(len(made.results))]
    after = {args[n]: results[count + k] for k, n in enumerate(places)}
    return Trained(results[:count], after)
