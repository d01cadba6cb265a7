"""Times of calls, as numbers and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlac.debug.timing import Samples


def spread(samples: Samples) -> dict[str, Any]:
    """Times of calls in microseconds; the distances of the quartiles, and of the bursts' medians,
    as shares of the median.
    """
    import numpy as np

    times = samples.all
    low, median, high = (float(np.percentile(times, at)) * 1e6 for at in (25, 50, 75))
    bursts = [float(np.median(burst)) * 1e6 for burst in samples.bursts]
    statistics = {
        "calls": len(times),
        "burst_us": bursts,
        "median_us": median,
        "p25_us": low,
        "p75_us": high,
    }
    steady = {"spread": samples.spread, "drift": samples.drift}
    return statistics | {"best_us": min(times) * 1e6} | steady


def tell_doubts(result: dict[str, Any]) -> None:
    """Prints why a measurement may be unreliable."""
    for doubt in result["doubts"]:
        click.echo(f"  unreliable: {doubt}")


def counters(wanted: bool, call: Callable[[], object], seconds: float) -> dict[str, Any]:
    """The entry `counters` of a result, where it is wanted: events of a call."""
    from xlac.debug.counters.counted import counted

    return {"counters": counted(call, seconds)} if wanted else {}


def tell_calls(result: dict[str, Any]) -> None:
    """Prints the time of a call, and what was counted."""
    from xlac.debug.counters.counted import told

    low, half, high, best = (result[f"{name}_us"] for name in ("p25", "median", "p75", "best"))
    times = f"{half:.2f} us median, quartiles {low:.2f}–{high:.2f}, best {best:.2f}"
    click.echo(f"  call      {times}, over {result['calls']} samples")
    for line in told(result["counters"]) if "counters" in result else ():
        click.echo(f"  counted   {line}")
