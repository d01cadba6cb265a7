"""What a limit on memory costs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.memory.limit import MemoryLimit, needed
from xlac_sdk.programs.program import Program

NOTHING: Mapping[str, Any] = {"factor": 1.0, "nodes": {}}
SHOWN = 12  # nodes that a run lists


def recomputed(program: Program) -> Mapping[str, Any]:
    """What a program recomputes to fit into a limit: `factor`, by which a call takes longer by the
    cost estimate, and `nodes` with how often.
    """
    found: Mapping[str, Any] = program.facts.get("recomputed", NOTHING)
    return found


def cost(again: Mapping[str, Any], shown: int | None = None) -> str:
    """What `recomputed` says, in words; of the nodes the first `shown`."""
    nodes = [f"{name} ({n})" if n > 1 else name for name, n in again["nodes"].items()]
    loops = [f"steps of {name} (one carry of {n} is kept)" for name, n in carries(again).items()]
    if not nodes and not loops:
        return "nothing is computed again"
    listed = [*loops, *(nodes if shown is None else nodes[:shown])]
    left = len(nodes) + len(loops) - len(listed)
    rest = f" and {left} more" if left else ""
    more = 100 * (again["factor"] - 1)
    return f"about {more:.1f} % more time; computed again: {', '.join(listed)}{rest}"


def carries(again: Mapping[str, Any]) -> Mapping[str, int]:
    """Of `recomputed`: of how many steps of a loop one carry is kept, by loop."""
    found: Mapping[str, int] = again.get("carries", {})
    return found


def within(program: Program, limit: MemoryLimit) -> str:
    """A line of what a program takes within a limit, and what that costs."""
    total = needed(program, limit.weights_in_memory)
    costs = cost(recomputed(program), SHOWN)
    return f"max memory  {total:,} of {limit.nbytes:,} bytes: {costs}"
