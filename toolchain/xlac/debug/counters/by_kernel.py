"""Counters of kernels: those of each group are called alone, on random inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlac.debug.counters.counted import counted
from xlac.debug.decisions import kernels_of
from xlac.debug.profile import Profile
from xlac.debug.tune.group_programs import GroupPrograms
from xlac.debug.tune.stamped_model import GroupsOfKernels
from xlac.driver import Lowered
from xlac_sdk.backend import Backend
from xlac_sdk.source import XlacError

FILL = 50e-6  # seconds that a call runs the kernels for, so that the call itself counts little
MOST = 64  # the most times that a call runs them

Counted = Callable[[Callable[[], object], float], dict[str, Any]]


def counted_kernels(
    lowered: Lowered,
    backend: Backend,
    profiled: Profile,
    seconds: float,
    most: int,
    count: Counted = counted,
) -> list[dict[str, Any]]:
    """What is counted in one run of the kernels of a group, for the `most` dearest groups of a
    profiled model, each for some seconds: `kernels` and `computes` beside what `counted` gives.
    """
    known, spent = GroupsOfKernels(lowered), dict[str, float]()
    for row in profiled.rows:
        name = known.group_of(row.name)
        if name is not None:
            spent[name] = spent.get(name, 0.0) + row.seconds / max(row.times, 1)
    found = []
    for name, taken in sorted(spent.items(), key=lambda entry: -entry[1])[:most]:
        group = known.by_name[name]
        repeats = max(1, min(MOST, int(FILL / max(taken, 1e-9))))
        about = {
            "kernels": [kernel.name for kernel in kernels_of(lowered, group)],
            "computes": list(dict.fromkeys(n.origin.name for n in group.nodes if n.origin)),
        }
        try:
            programs = GroupPrograms(group, lowered, backend, repeats)
            own = dict(lowered.schedules(group).schedules)
            counters = count(programs.call(programs.program(own)), seconds)
        except XlacError as error:
            counters = {"calls": 0, "missing": {"counters": str(error)}}
        found.append({**about, **_of_one(counters, repeats)})
    return found


def _of_one(counters: Mapping[str, Any], repeats: int) -> dict[str, Any]:
    """The counts of one run, of those of a call."""
    whole = ("calls", "missing")
    return {name: n if name in whole else n / repeats for name, n in counters.items()}


def rows(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The heads and the cells of a table; counts that are not there are empty."""
    names = [n for n in NAMES if any(n in one for one in found)]
    heads = (*(name.replace("_", " ") for name in names), "instructions a cycle", "kernels")
    cells = [
        (
            *(f"{one[name]:,.4g}" if name in one else "" for name in names),
            f"{one['instructions'] / one['cycles']:.2f}"
            if one.get("cycles") and "instructions" in one
            else "",
            ", ".join(one["kernels"]),
        )
        for one in found
    ]
    return [heads, *cells]


NAMES = ("cycles", "instructions", "cache_misses", "branch_misses", "page_faults")


def unavailable(found: list[dict[str, Any]]) -> list[str]:
    """Lines that say why counters are not there, each reason once."""
    reasons: dict[str, dict[str, None]] = {}
    for one in found:
        for name, why in one["missing"].items():
            if name in NAMES or name == "counters":
                reasons.setdefault(why, {})[name.replace("_", " ")] = None
    return [f"unavailable: {', '.join(names)} ({why})" for why, names in reasons.items()]
