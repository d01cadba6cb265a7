"""Describes the cost of a memory limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.memory.limit import MemoryLimit, needed
from xlac_sdk.programs.program import Program

NOTHING: Mapping[str, Any] = {"factor": 1.0, "nodes": {}}
SHOWN = 12  # the most nodes that a line lists


def recomputed(program: Program) -> Mapping[str, Any]:
    """What a program recomputes to fit into a limit: `factor`, by which a call takes longer by the
    cost estimate, and `nodes` with how often.
    """
    fact: Mapping[str, Any] = program.facts.get("recomputed", NOTHING)
    return fact


def cost(again: Mapping[str, Any], shown: int | None = None) -> str:
    """Describes what `recomputed` returned, with the first `shown` nodes."""
    nodes = [f"{name} ({n})" if n > 1 else name for name, n in again["nodes"].items()]
    loops = [f"steps of {name} (one carry of {n} is kept)" for name, n in carries(again).items()]
    arrays = again.get("temporaries", 0)
    slower = f"; kernels make no array above {arrays:,} bytes just to be faster" if arrays else ""
    if again.get("sums_reordered"):
        slower += "; sums are in another order than without a limit, so results differ by rounding"
    if not nodes and not loops:
        return f"nothing is computed again{slower}"
    listed = [*loops, *(nodes if shown is None else nodes[:shown])]
    left = len(nodes) + len(loops) - len(listed)
    rest = f" and {left} more" if left else ""
    more = 100 * (again["factor"] - 1)
    return f"about {more:.1f} % more time; computed again: {', '.join(listed)}{rest}{slower}"


def carries(again: Mapping[str, Any]) -> Mapping[str, int]:
    """Describes, for `recomputed`, how many steps of each loop share one kept carry."""
    fact: Mapping[str, int] = again.get("carries", {})
    return fact


def within(program: Program, limit: MemoryLimit) -> str:
    """A line on the memory of a program within a limit, and its cost."""
    total = needed(program, limit.weights_in_memory)
    costs = cost(recomputed(program), SHOWN)
    return f"max memory  {total:,} of {limit.nbytes:,} bytes: {costs}"
