"""The predicted time of a step of a rank, of which computation hides messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.group import Collective
from xlac.ops.tensor.view import Reshape
from xlac.spmd.hiding_order import StepPart, hiding_order


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step's computation, of its messages, and of the messages that are under way
    while something is computed.
    """

    compute: float
    wire: float
    hidden: float

    @property
    def seconds(self) -> float:
        """The time of the step."""
        return self.compute + self.wire - self.hidden


def times_in_turn(parts: Iterable[StepTime]) -> StepTime:
    """Steps one after the other."""
    every = list(parts)
    return StepTime(
        sum(one.compute for one in every),
        sum(one.wire for one in every),
        sum(one.hidden for one in every),
    )


def step_time(
    graph: Graph, compute: Mapping[Node, float], message: Callable[[Node], float]
) -> StepTime:
    """A step in the order of a rank's program (`hiding_order`): one operation at a time, messages
    one after the other beside it, and an operation that needs one that is under way waits for it.
    `compute` has the seconds of operations, `message` gives those of a collective.
    """
    nodes = [node for node in graph.nodes() if node.inputs]
    parts = [
        StepPart(
            node.inputs, (node,), isinstance(node.op, Collective), isinstance(node.op, Reshape)
        )
        for node in nodes
    ]
    now = free = wire = 0.0  # free: when the link is, after all messages so far
    there: dict[Node, float] = {}  # when a value has come
    for at in hiding_order(parts):
        node = nodes[at]
        come = max((there.get(i, 0.0) for i in node.inputs), default=0.0)
        if isinstance(node.op, Reshape):
            there[node] = come
            continue
        now = max(now, come)
        if isinstance(node.op, Collective):
            seconds = message(node)
            wire += seconds
            free = max(now, free) + seconds
            there |= dict.fromkeys((node, *node.inputs), free)  # its operand is in use until then
        else:
            now += compute.get(node, 0.0)
    total = sum(compute.get(node, 0.0) for node in nodes)
    return StepTime(total, wire, total + wire - max(now, free))
