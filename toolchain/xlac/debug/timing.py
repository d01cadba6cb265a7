"""Times calls in bursts with other work between them, and reports why the times may be
unreliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

BURSTS = 5
FILL = 200e-6  # the least seconds of a sample: short calls are repeated
# seconds of calls before each burst, at most a quarter of it, which load the caches again
SETTLE = 0.02
# distance of the quartiles of calls, as a share of the median, from which they are unsteady
UNSTEADY = 0.10
DRIFT = 0.25  # the same for the medians of bursts
UNSURE = 0.15  # the same for the best and the median run of a ceiling

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds of calls, burst by burst, and of each run of the other work between bursts."""

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
        """The distance of the quartiles, as a share of the median."""
        low, high = np.percentile(self.all, (25, 75))
        return float(high - low) / self.median

    @property
    def drift(self) -> float:
        """The distance of the slowest burst's median from the fastest one's, as a share of the
        median.
        """
        medians = self.burst_medians
        return (max(medians) - min(medians)) / self.median

    @property
    def burst_medians(self) -> list[float]:
        """The median of each burst, in seconds."""
        return [float(np.median(burst)) for burst in self.bursts]


def take(
    call: Callable[[], object],
    seconds: float,
    beside: Sequence[Callable[[], object]] = (),
    clock: Clock = perf_counter,
    tell: Callable[[int, int], object] = lambda done, whole: None,
) -> Samples:
    """Times calls for some seconds in bursts; before each burst, `beside` is run and timed once.

    A sample is one call, or as many as fill 200 microseconds, in seconds per call. `tell` is called
    after each burst.
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


def take_turns(
    calls: Sequence[Callable[[], object]],
    seconds: float,
    clock: Clock = perf_counter,
    tell: Callable[[int, int], object] = lambda done, whole: None,
) -> list[Samples]:
    """Times several calls, each for some seconds, in bursts that take turns, so that what else the
    machine does slows down all of them. Samples and `tell` are as in `take`.
    """
    repeats = []
    for call in calls:
        call()
        start = clock()
        call()
        repeats.append(max(1, int(FILL / max(clock() - start, 1e-9))))
    each = seconds / BURSTS
    bursts: list[list[tuple[float, ...]]] = [[] for _ in calls]
    for number in range(BURSTS):
        tell(number, BURSTS)
        for call, repeat, into in zip(calls, repeats, bursts, strict=True):
            call()
            settled = clock() + min(SETTLE, each / 4)
            while clock() < settled:
                call()
            into.append(_burst(call, repeat, each, clock))
    return [Samples(tuple(one)) for one in bursts]


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
    """Warnings about calls whose times vary; empty when they are steady."""
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
    """Seconds of the best run, and the distance of the median run from it as a share of the
    median.
    """
    best, median = min(runs), float(np.median(runs))
    return best, (median - best) / median


def doubtful(what: str, share: float, spread: float, why: str) -> list[str]:
    """Warnings about a share of a ceiling: it exceeds 100 %, or the ceiling varies."""
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
