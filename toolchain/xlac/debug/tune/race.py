"""Times two programs in turn, so that what else the machine does slows down both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from time import perf_counter

from xlac.debug.run_comparison import T_975

Call = Callable[[], object]

FILL = 50e-6
"""The least seconds of a sample: shorter calls are repeated, where nothing comes between them."""

FIRST = 5
"""Turns after which a program that is HOPELESS times as slow is given up."""

HOPELESS = 1.15
MOST = 400  # turns


@dataclass(frozen=True, slots=True)
class RaceTimes:
    """Seconds of both programs, turn by turn."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times as long the second takes: the best turns of both."""
        return min(self.second) / min(self.first)


def race(
    first: Call,
    second: Call,
    seconds: float,
    between: Call | None = None,
    clock: Callable[[], float] = perf_counter,
) -> RaceTimes:
    """Calls two programs in turn for some seconds; `between` is done before every sample, which is
    then one call.
    """
    repeat = 1
    for call in (first, second):
        call()
    if between is None:
        begun = clock()
        first()
        repeat = max(1, int(FILL / max(clock() - begun, 1e-9)))
    times: tuple[list[float], list[float]] = ([], [])
    end = clock() + seconds
    while not times[0] or (clock() < end and len(times[0]) < MOST):
        for call, into in zip((first, second), times, strict=True):
            if between is not None:
                between()
            begun = clock()
            for _ in range(repeat):
                call()
            into.append((clock() - begun) / repeat)
        if len(times[0]) >= FIRST and min(times[1]) > HOPELESS * min(times[0]):
            break
    return RaceTimes(tuple(times[0]), tuple(times[1]))


def speedup(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """How many times as fast the second of two is, from times of both that were taken together: an
    estimate, and the ends of the interval that has the true value in 95 of 100 cases. One pair
    alone has the interval from 0 to infinity.
    """
    logs = [math.log(before / after) for before, after in pairs]
    middle = mean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    wide = T_975[min(len(logs) - 1, len(T_975)) - 1] * stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - wide), math.exp(middle + wide)


def medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The medians of both sides."""
    return median(one for one, _ in pairs), median(other for _, other in pairs)
