"""Times of calls that are compared: each runs a burst in turn, again and again, and its best burst
counts, so that what else the machine does falls on all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], Any]


def burst(call: Call, count: int, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of a call by a clock, the mean of `count` calls."""
    start = clock()
    for _ in range(count):
        call()
    return max(1e-9, (clock() - start) / count)


def best_bursts(
    calls: Sequence[Call],
    bursts: int = 9,
    seconds: float = 0.02,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Seconds of a call of each, in the best of its bursts, each of as many calls as take about
    `seconds`. The clock is the processor time of this process, or `time.perf_counter`.
    """
    for call in calls:
        call()  # what is allocated or compiled at the first call is none of it
    counts = [max(1, int(seconds / burst(call, 3, clock))) for call in calls]
    best = [float("inf")] * len(calls)
    for _ in range(bursts):
        for number, (call, count) in enumerate(zip(calls, counts, strict=True)):
            best[number] = min(best[number], burst(call, count, clock))
    return best
