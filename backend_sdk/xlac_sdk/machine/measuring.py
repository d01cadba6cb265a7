"""Measures facts of a machine from samples of a backend's probes.

A sample is one run of a probe between two runs of a chain of dependent additions, whose cycle count
is known: so cycles are measured at the core's clock frequency of that moment. A sample during which
a thread was preempted or migrated, or the hypervisor took the processor, is dropped. The result
of a probe is the lower quartile of at least `LEAST` samples; where the quartiles are more than
`SPREAD` apart, or too few samples remain, the probe has no result and the shipped fact is used.
The rates of caches that others share, and of memory, are ranges, from the slower quartile to the
faster one, in small pages and in huge ones; a range wider than `RANGE` is no result.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from pathlib import Path
from typing import NamedTuple

from xlac_sdk.machine_facts import LIMITS

LEAST, MOST = 15, 60  # samples required, samples taken at most
SPREAD = 0.15  # the largest distance of the quartiles, as a share of the median
RANGE = 2.0  # the most that the highest rate of a range is of the lowest
STEPS = 4  # facts are rounded to powers of 2^(1/4), so that equal machines have equal facts
FULL = 0.85  # data counts as cached if it is read at this share of the rate of half as much data
# probes of parts of the second-level cache
PARTS = {"l2_whole": 1.0, "l2_most": 0.84, "l2_part": 0.71}
HUGE = "_huge"  # ends the names of probes of the same data in huge pages
ALL = "_all"  # ends the names of probes that all threads run, each with data of its own
LEVELS = ("l2", "l3", "memory")
SHARED = ("l3", "memory")  # levels whose rates are ranges


class TimedProbe(NamedTuple):
    """A probe; one run reads `nbytes` bytes, or computes so many vectors, and takes about a
    millisecond. `alone`: says, after a run, whether none of the probe's other threads was
    disturbed.
    """

    name: str
    nbytes: int
    run: Callable[[], object]
    alone: Callable[[], bool] = lambda: True


class Probes(NamedTuple):
    """The probes of a backend: a chain that takes `chain_cycles` cycles at any clock frequency, and
    timed probes. These names have a meaning: `l1`, `l2` (half of it), `l3`, `memory`, those in
    `PARTS`, each in small pages, or with `HUGE` or `ALL` behind; and `rows_stride` for rows, 2^k
    bytes apart, of a panel smaller than the second-level cache.
    """

    chain: Callable[[], object]
    chain_cycles: float
    probes: Sequence[TimedProbe]


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a probe: its nanoseconds, the mean of the two chains around it, and whether it was
    disturbed.
    """

    ns: float
    chain_ns: float
    disturbed: bool


@dataclass(frozen=True, slots=True)
class RunCycles:
    """The result of a probe: the lower quartile of its cycles, the distance of the quartiles as a
    share of the median, the number of samples used and taken, the upper quartile, and the clock
    frequency, in cycles per nanosecond.
    """

    cycles: float
    spread: float
    counted: int
    taken: int
    most: float = float("inf")
    clock: float = 0.0

    @property
    def steady(self) -> bool:
        """Whether it is reliable."""
        return self.counted >= LEAST and self.spread <= SPREAD


def sampled(probe: TimedProbe, probes: Probes) -> list[TimedRun]:
    """Samples of a probe, until `LEAST` are undisturbed or `MOST` are taken."""
    samples: list[TimedRun] = []
    probe.run()  # what it reads is where it will be
    while len(samples) < MOST and sum(not sample.disturbed for sample in samples) < LEAST:
        before, first = disturbances(), time.perf_counter_ns()
        probes.chain()
        second = time.perf_counter_ns()
        probe.run()
        third = time.perf_counter_ns()
        probes.chain()
        last = time.perf_counter_ns()
        chain = (second - first + last - third) / 2
        alone = disturbances() == before and probe.alone()
        samples.append(TimedRun(third - second, chain, not alone))
    return samples


def undisturbed(run: Callable[[], object], least: int = LEAST, most: int = MOST) -> list[float]:
    """Seconds of runs, until `least` were undisturbed or `most` are taken: of the undisturbed ones,
    or of all where they are fewer than `least`.
    """
    seconds: list[float] = []
    calm: list[float] = []
    run()
    while len(seconds) < most and len(calm) < least:
        before, begin = disturbances(), time.perf_counter_ns()
        run()
        seconds.append((time.perf_counter_ns() - begin) / 1e9)
        if disturbances() == before:
            calm.append(seconds[-1])
    return calm if len(calm) >= least else seconds


def summary(samples: Sequence[TimedRun], chain_cycles: float) -> RunCycles:
    """The result of samples; infinite cycles where all were disturbed."""
    calm = [one for one in samples if not one.disturbed and one.chain_ns > 0]
    counted = sorted(one.ns / one.chain_ns * chain_cycles for one in calm)
    if not counted:
        return RunCycles(float("inf"), float("inf"), 0, len(samples))
    low, middle, high = (_quantile(counted, part) for part in (0.25, 0.5, 0.75))
    clock = chain_cycles / _quantile(sorted(one.chain_ns for one in calm), 0.5)
    return RunCycles(low, (high - low) / middle, len(counted), len(samples), high, clock)


def _quantile(values: Sequence[float], part: float) -> float:
    """A quantile of sorted values, linearly interpolated."""
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def rates(measured: Mapping[str, RunCycles], probes: Mapping[str, int]) -> dict[str, float]:
    """Bytes per cycle of the steady probes, by name; `probes` has the bytes of each."""
    return {n: probes[n] / one.cycles for n, one in measured.items() if one.steady}


def ranges(
    measured: Mapping[str, RunCycles], probes: Mapping[str, int]
) -> dict[str, tuple[float, float]]:
    """The lowest and the highest rate of each level of `SHARED`, over small and huge pages."""
    found = {}
    for level in SHARED:
        runs = {name: measured[name] for name in (level, level + HUGE) if name in measured}
        runs = {name: one for name, one in runs.items() if one.counted >= LEAST}
        if level in runs:
            low = min(probes[name] / one.most for name, one in runs.items())
            high = max(probes[name] / one.cycles for name, one in runs.items())
            if high <= RANGE * low:
                found[level] = low, high
    return found


def facts(rate: Mapping[str, float], shared: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The facts of `MachineFacts` that follow from rates, and from the ranges of the levels of
    `SHARED`; rounded; others are absent. Rates of all threads are of all together.
    """
    facts = {f"{level}_total": rate[level + ALL] for level in LEVELS if level + ALL in rate}
    for level, (low, high) in shared.items():
        facts[f"{level}_rate"], facts[f"{level}_spread"] = sqrt(low * high), sqrt(high / low)
    if "l2" in rate:
        facts["l2_rate"] = rate["l2"]
        if "rows_stride" in rate:
            facts["stride_penalty"] = max(rate["l2"] / rate["rows_stride"] - 1, 2.0**-6)
        parts = [part for end in ("", HUGE) if (part := _held(rate, end)) is not None]
        if parts:  # what stays in pages of either size
            facts["l2_part"] = min(parts)
    rounded_facts = {name: rounded(value) for name, value in facts.items()}
    return {name: value for name, value in rounded_facts.items() if LIMITS[name].holds(value)}


def _held(rate: Mapping[str, float], end: str) -> float | None:
    """The part of the second-level cache that data can fill; None where it was not measured."""
    if not {"l2" + end, *(name + end for name in PARTS)} <= rate.keys():
        return None
    holds = (part for name, part in PARTS.items() if rate[name + end] >= FULL * rate["l2" + end])
    return next(holds, 0.5)


def rounded(value: float) -> float:
    """The nearest power of 2^(1/4), to four digits."""
    return float(f"{2 ** (round(STEPS * log2(value)) / STEPS):.4g}")


def disturbances() -> tuple[object, ...]:
    """Counters that change when the thread is disturbed: involuntary context switches, its
    processor, and time stolen by a hypervisor.
    """
    usage = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return usage.ru_nivcsw, _word("/proc/thread-self/stat", -14), _word("/proc/stat", 8)


def _word(file: str, number: int) -> str:
    """A word of a file's first line; "" if the system lacks the file."""
    try:
        with Path(file).open(encoding="ascii", errors="replace") as opened:
            return opened.readline().split()[number]
    except (OSError, IndexError):
        return ""
