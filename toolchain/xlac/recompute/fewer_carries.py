"""Loops of a step that keep fewer carries for the way back, and make the steps between again: what
is tried where recomputing whole kernels does not fit a step into a memory limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from xlac.autodiff.checkpoints import kept_every, scans
from xlac.ir.graph import Graph
from xlac.memory.limit import MemoryLimitError
from xlac.model import Model
from xlac.ops import cost as work
from xlac.recompute.measure import PRODUCT_BYTES
from xlac_sdk.programs.program import Program

# of the square root of a loop's length: fewer carries where a step's residuals are small beside
# them, more where they are large; any of them costs the same time
SCALES = (1.0, 0.5, 2.0, 0.25)

Made = TypeVar("Made")


def with_fewer_carries(model: Model, lowered: Callable[[Model], Made]) -> tuple[Made, float]:
    """What `lowered` gives for a model, and 0; where its memory is beyond the limit, what it gives
    for the first of the model's checkpointed graphs that fits, and the scale of that. Raises
    LimitError, of the graph that takes least, where none does.
    """
    try:
        return lowered(model), 0.0
    except MemoryLimitError as error:
        again, least = model.checkpointed, error
    if again is not None:
        for scale in SCALES:
            try:
                return lowered(replace(model, graph=again(scale), checkpointed=None)), scale
            except MemoryLimitError as error:
                least = min(least, error, key=lambda one: one.nbytes)
    raise least


def explained(program: Program, model: Model, scale: float) -> Program:
    """A program of checkpointed loops, with the fact of what is recomputed: `carries`, by loop of
    how many steps one carry is kept, and the whole `factor` of time.
    """
    assert model.checkpointed is not None
    found = program.facts.get("recomputed", {"factor": 1.0, "nodes": {}})
    more = _time(model.checkpointed(scale)) / _time(model.graph)
    carries = {
        node.name or node.op.mnemonic: kept_every(node, scale) for node in scans(model.graph)
    }
    factor = round(found["factor"] * max(more, 1.0), 4)
    again = {"factor": factor, "nodes": found["nodes"], "carries": carries}
    return replace(program, facts={**program.facts, "recomputed": again})


def _time(graph: Graph) -> float:
    """The estimated time of a graph, in bytes that could be moved in it."""
    works = [work.cost(node) for node in graph.order if node.inputs]
    return sum(one.flops * PRODUCT_BYTES + one.read + one.written for one in works)
