"""A pipeline with all of its ranks in one process, in NumPy: each has the values that it computed
or was sent, and its own states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import Task

Arrays = Mapping[str, Array]


def interpret_pipeline(
    plans: Sequence[PhasePlan],
    order: Sequence[Sequence[Task]],
    inputs: Sequence[Arrays],
    states: Sequence[dict[str, Array]],
) -> list[dict[str, Array]]:
    """The outputs of each micro-batch. `states` are those of each rank, which change. Ranks go on
    in turn as far as they can. Raises ValueError where none can.
    """
    held: list[dict[tuple[int, int], Array]] = [{} for _ in order]  # by micro-batch and value
    at = [0] * len(order)
    while any(at[rank] < len(tasks) for rank, tasks in enumerate(order)):
        before = list(at)
        for rank, tasks in enumerate(order):
            while at[rank] < len(tasks):
                micro, number = tasks[at[rank]]
                plan = plans[micro]
                reads = plan.phases[number].reads
                if any((micro, value) not in held[rank] for value in reads.values()):
                    break
                _run(plan, number, micro, inputs[micro], states[rank], held)
                at[rank] += 1
        if at == before:
            raise ValueError("ranks wait for one another")
    for rank, state in enumerate(states):
        for micro, plan in enumerate(plans):
            copied = plan.copied[rank].items()
            state.update({name: held[rank][micro, value] for name, value in copied})
    return [
        {name: held[0][micro, value] for name, value in plan.outputs.items()}
        for micro, plan in enumerate(plans)
    ]


def _run(
    plan: PhasePlan,
    number: int,
    micro: int,
    inputs: Arrays,
    state: dict[str, Array],
    held: Sequence[dict[tuple[int, int], Array]],
) -> None:
    phase = plan.phases[number]
    own = held[phase.rank]
    given = {name: inputs[name] for name in phase.inputs}
    given |= {name: own[micro, value] for name, value in phase.reads.items()}
    given |= state
    weights = {name: np.asarray(array) for name, array in plan.whole.weights.items()}
    found = interpret(phase.model.graph, given, weights)
    own.update({(micro, value): found[name] for name, value in phase.writes.items()})
    state.update({name: found[output] for name, output in phase.model.state.items()})
    for message in plan.messages:
        if message.source == number:
            sent = {(micro, value): own[micro, value] for value in message.values}
            held[message.rank].update(sent)
    state.update({name: own[micro, value] for name, value in phase.late.items()})
