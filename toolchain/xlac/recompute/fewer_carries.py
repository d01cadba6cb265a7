"""Training steps whose loops keep fewer carries for the backward pass and recompute the others;
tried where recomputing groups does not fit a step into a memory limit.
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

# as multiples of the square root of a loop's length: smaller where a step's residuals are small
# beside the carries, larger where they are large; all cost the same time
SCALES = (1.0, 0.5, 2.0, 0.25)

Made = TypeVar("Made")


def with_fewer_carries(model: Model, lowered: Callable[[Model], Made]) -> tuple[Made, float]:
    """`lowered(model)`, and 0; or, where that exceeds the memory limit, the result for the first of
    the model's checkpointed graphs that fits, and its scale. Raises LimitError, for the graph that
    needs least, where none fits.
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
    """The program of checkpointed loops with the fact `recomputed`: `carries` has, by loop, the
    number of steps per kept carry, and `factor` is the total increase of time.
    """
    assert model.checkpointed is not None
    recomputed = program.facts.get("recomputed", {"factor": 1.0, "nodes": {}})
    more = _time(model.checkpointed(scale)) / _time(model.graph)
    carries = {
        node.name or node.op.mnemonic: kept_every(node, scale) for node in scans(model.graph)
    }
    factor = round(recomputed["factor"] * max(more, 1.0), 4)
    again = {**recomputed, "factor": factor, "carries": carries, "sums_reordered": True}
    return replace(program, facts={**program.facts, "recomputed": again})


def _time(graph: Graph) -> float:
    """The estimated time of a graph, in bytes that could be moved in it."""
    works = [work.cost(node) for node in graph.order if node.inputs]
    return sum(one.flops * PRODUCT_BYTES + one.read + one.written for one in works)
