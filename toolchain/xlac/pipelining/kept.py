"""What a rank of a pipeline keeps between phases."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ops.tensor.leaf import Param
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import Task
from xlac.placement.cut import nbytes


def held_bytes(plans: Sequence[PhasePlan], rank: int) -> int:
    """The bytes of weights and states that a rank holds."""
    phases = [phase for plan in plans for phase in plan.phases if phase.rank == rank]
    params = {
        node.op.name: node
        for phase in phases
        for node in (*phase.model.graph.inputs, *phase.model.graph.order)
        if isinstance(node.op, Param) and node.op.kind != "input"
    }
    return sum(map(nbytes, params.values()))


def most_kept(plans: Sequence[PhasePlan], tasks: Sequence[Task], rank: int) -> int:
    """The most bytes of values that a rank holds at once, in the order of its tasks: each from the
    phase that computes it, or first reads it here, to the last that reads it.
    """
    place = {task: at for at, task in enumerate(tasks)}
    change = [0] * (len(tasks) + 1)
    for micro, plan in enumerate(plans):
        for number, value in plan.values.items():
            reads = [place[micro, phase] for phase in plan.readers(number, rank)]
            own = plan.rank_of(number) == rank
            ends = rank in value.ends
            if not (own or reads or ends):
                continue
            first = place[micro, value.source] if own else min(reads, default=len(tasks) - 1)
            last = len(tasks) - 1 if ends else max([first, *reads])
            change[first] += nbytes(value.node)
            change[last + 1] -= nbytes(value.node)
    now = most = 0
    for amount in change:
        now += amount
        most = max(most, now)
    return most
