"""Predicted times of operations of a rank: their computation, and the messages inside of loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.ir.dims import size_hint
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.ops.collective.group import Collective
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.cost import cost, nbytes
from xlac.spmd.cost import NetworkLink, RankDevice, seconds

TURNS = 16
"""Iterations of a loop of which nobody knows how many it has."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What times are predicted for."""

    link: NetworkLink = field(default_factory=NetworkLink)
    device: RankDevice = field(default_factory=RankDevice)


def seconds_of(node: Node, rates: Rates) -> float:
    """The time of an operation: of a collective, with nothing to hide it; of a loop, with all that
    is inside. Element-wise operations are fused, so they move no bytes.
    """
    match node.op:
        case Collective():
            return seconds(node, rates.link)
        case Scan(body=Graph() as body, length=length):
            return size_hint(length) * seconds_in(body, rates)
        case While(cond=Graph() as cond, body=Graph() as body):
            return TURNS * (seconds_in(cond, rates) + seconds_in(body, rates))
        case Cond(branches=branches):
            return max((seconds_in(branch, rates) for branch in branches), default=0.0)
        case Call(body=Graph() as body):
            return seconds_in(body, rates)
    needs = cost(node)
    moved = 0 if isinstance(node.op, Elementwise) else needs.read + needs.written
    return max(needs.flops / rates.device.flops, moved / rates.device.rate)


def seconds_in(body: Graph, rates: Rates) -> float:
    """The time of all operations of a body, one after the other."""
    return sum(seconds_of(node, rates) for node in body.nodes())


def computing(graph: Graph, rates: Rates) -> dict[Node, float]:
    """The least time that a device needs for each operation, by its arithmetic or its memory.
    Parameters and results are moved once, by all operations in proportion to their times. What is
    exchanged inside of a loop is part of its time: nothing hides it.
    """
    times = {n: seconds_of(n, rates) for n in graph.nodes() if not isinstance(n.op, Collective)}
    ends = [*graph.inputs, *graph.outputs.values()]
    moving = sum(nbytes(t) for node in ends for t in node.results) / rates.device.rate
    total = sum(times.values())
    return {node: time * (1 + moving / total) for node, time in times.items()} if total else times
