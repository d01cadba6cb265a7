"""Times of calls, taken in bursts with other work between them, and what speaks against trusting
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

BURSTS = 5
FILL = 200e-6  # seconds that a sample takes at least: so many calls
# seconds of calls before each burst, at most a quarter of it: what was between them had the caches
SETTLE = 0.02
UNSTEADY = 0.10  # quartiles of calls so far apart, as a share of the median
DRIFT = 0.25  # medians of bursts so far apart
UNSURE = 0.15  # the best and the median run of a ceiling so far apart

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of calls, burst by burst, and of each run of what was run between the bursts."""

    bursts: tuple[tuple[float, ...], ...]
    beside: tuple[tuple[float, ...], ...] = ()

    @property
    def all(self) -> list[float]:
        """The seconds of every call."""
        return [seconds for burst in self.bursts for seconds in burst]

    @property
    def median(self) -> float:
        """The median of all calls, in seconds."""
        return float(np.median(self.all))

    @property
    def spread(self) -> float:
        """How far the quartiles are apart, as a share of the median."""
        low, high = np.percentile(self.all, (25, 75))
        return float(high - low) / self.median

    @property
    def drift(self) -> float:
        """How far the slowest burst's median is from the fastest one's, as a share of the
        median.
        """
        medians = [float(np.median(burst)) for burst in self.bursts]
        return (max(medians) - min(medians)) / self.median


def take(
    call: Callable[[], object],
    seconds: float,
    beside: Sequence[Callable[[], object]] = (),
    clock: Clock = perf_counter,
    tell: Callable[[int, int], object] = lambda done, whole: None,
) -> Samples:
    """Times calls for some seconds in bursts; before each of these, what is `beside` is run and
    timed once.

    A sample is one call, or enough to fill 200 microseconds, and is the seconds of one. `tell`
    hears of bursts that are done.
    """
    call()
    start = clock()
    call()
    once = max(clock() - start, 1e-9)
    repeat = max(1, int(FILL / once))
    each = seconds / BURSTS
    bursts: list[tuple[float, ...]] = []
    runs: list[list[float]] = [[] for _ in beside]
    for number in range(BURSTS):
        tell(number, BURSTS)
        for work, times in zip(beside, runs, strict=True):
            start = clock()
            work()
            times.append(clock() - start)
        call()
        settled = clock() + min(SETTLE, each / 4)
        while clock() < settled:
            call()
        bursts.append(_burst(call, repeat, each, clock))
    return Samples(tuple(bursts), tuple(map(tuple, runs)))


def _burst(
    call: Callable[[], object], repeat: int, seconds: float, clock: Clock
) -> tuple[float, ...]:
    times: list[float] = []
    end = clock() + seconds
    while not times or clock() < end:
        start = clock()
        for _ in range(repeat):
            call()
        times.append((clock() - start) / repeat)
    return tuple(times)


def unsteady(samples: Samples) -> list[str]:
    """What of the calls is not to be trusted because it varies; nothing when it is steady."""
    if samples.spread > UNSTEADY:
        return [
            (
                f"calls are unsteady: half of them lie {100 * samples.spread:.0f} % of the median "
                "apart; something else is running, or the clock rate varies"
            )
        ]
    if samples.drift > DRIFT:
        return [
            (
                f"calls are unsteady: the median moved by {100 * samples.drift:.0f} % while it was "
                "measured; something else is running, or the clock rate varies"
            )
        ]
    return []


def ceiling(runs: Sequence[float]) -> tuple[float, float]:
    """Seconds of the best run, and how far the median run is from it as a share of the median."""
    best, median = min(runs), float(np.median(runs))
    return best, (median - best) / median


def doubtful(what: str, share: float, spread: float, why: str) -> list[str]:
    """What of a share of a ceiling is not to be trusted: more than all of it, or of a ceiling that
    varies.
    """
    doubts = []
    if share > 1:
        doubts.append(
            f"{what} is {100 * share:.0f} % of its ceiling, more than there can be: {why}"
        )
    if spread > UNSURE:
        doubts.append(
            f"the ceiling of {what} is unsteady: its runs lie {100 * spread:.0f} % apart; its "
            "share says little"
        )
    return doubts
