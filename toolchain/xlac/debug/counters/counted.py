"""Calls with counters beside them."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from xlac.debug.counters.energy import EnergyCounters
from xlac.debug.counters.perf_events import PerfEvents


def counted(
    call: Callable[[], object],
    seconds: float,
    events: PerfEvents | None = None,
    energy: EnergyCounters | None = None,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Any]:
    """Calls for some seconds. Returns how often each event happened in a call, joules of a call,
    and `missing`: why others are not there. Only whole calls of the calling thread are counted;
    energy is that of the whole machine.
    """
    events, energy = events or PerfEvents(), energy or EnergyCounters()
    try:
        before = events.counts()
        calls, end = 0, clock() + seconds
        while not calls or clock() < end:
            call()
            calls += 1
        after, joules = events.counts(), energy.joules()
    finally:
        events.close()
    counts = {name: (after[name] - before[name]) / calls for name in after if name in before}
    missing = dict(events.missing)
    if joules is None:
        missing["joules"] = energy.missing
    else:
        counts["joules"] = joules / calls
    return {"calls": calls, **counts, "missing": missing}


def told(counters: dict[str, Any]) -> list[str]:
    """Lines that say what was counted in a call, and what could not be."""
    names = [name for name in counters if name not in ("calls", "missing")]
    lines = [f"{name.replace('_', ' ')} {counters[name]:,.4g}" for name in names]
    if counters.get("cycles") and "instructions" in counters:
        lines.append(f"{counters['instructions'] / counters['cycles']:.2f} instructions a cycle")
    said = [", ".join(lines)] if lines else []
    reasons: dict[str, list[str]] = {}
    for name, why in counters["missing"].items():
        reasons.setdefault(why, []).append(name.replace("_", " "))
    return said + [f"unavailable: {', '.join(names)} ({why})" for why, names in reasons.items()]
