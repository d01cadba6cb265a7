"""Measures facts of a machine: samples of a backend's probes, and what they say.

A sample is one run of a probe between two runs of a chain of dependent additions, whose cycles are
known: so cycles are counted by the clock that the core had at that moment. A sample during which
the thread was preempted or migrated, or the hypervisor took the processor, is dropped. What a probe
takes is the lower quartile of at least `LEAST` samples; where their quartiles are more than
`SPREAD` apart, or too few remain, nothing is said and the shipped fact stays.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import NamedTuple

from xlac_sdk.machine_facts import LIMITS

LEAST, MOST = 15, 60  # samples that count, samples that are taken
SPREAD = 0.15  # of the quartiles, as a part of the median
STEPS = 4  # facts are rounded to powers of 2^(1/4): equal machines have equal facts
FULL = 0.85  # a cache holds data that is read at this part of the rate of half as much
PARTS = {"l2_whole": 1.0, "l2_most": 0.84, "l2_part": 0.71}  # of the second-level cache, as probed


class TimedProbe(NamedTuple):
    """One run moves `nbytes` bytes, and takes a millisecond or so."""

    name: str
    nbytes: int
    run: Callable[[], object]


class Probes(NamedTuple):
    """What a backend can measure: a chain that takes `chain_cycles` cycles at any clock, and
    probes. Names with a meaning here are `l1`, `l2` (half of it), `l3`, `memory`, those of `PARTS`,
    and `rows_stride` for rows of a panel that is smaller than the second-level cache, 2^k bytes
    apart.
    """

    chain: Callable[[], object]
    chain_cycles: float
    probes: Sequence[TimedProbe]


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a probe: its nanoseconds, the mean of the two chains around it, and whether
    something else ran meanwhile.
    """

    ns: float
    chain_ns: float
    disturbed: bool


@dataclass(frozen=True, slots=True)
class RunCycles:
    """Cycles of a probe's run: the lower quartile, the distance of the quartiles as a part of the
    median, and how many samples count of all that were taken.
    """

    cycles: float
    spread: float
    counted: int
    taken: int

    @property
    def steady(self) -> bool:
        """Whether it says something."""
        return self.counted >= LEAST and self.spread <= SPREAD


def sampled(probe: TimedProbe, probes: Probes) -> list[TimedRun]:
    """Samples of a probe, until `LEAST` are undisturbed or `MOST` are taken."""
    found: list[TimedRun] = []
    probe.run()  # what it reads is where it will be
    while len(found) < MOST and sum(not sample.disturbed for sample in found) < LEAST:
        before, first = _disturbances(), time.perf_counter_ns()
        probes.chain()
        second = time.perf_counter_ns()
        probe.run()
        third = time.perf_counter_ns()
        probes.chain()
        last = time.perf_counter_ns()
        chain = (second - first + last - third) / 2
        found.append(TimedRun(third - second, chain, _disturbances() != before))
    return found


def summary(samples: Sequence[TimedRun], chain_cycles: float) -> RunCycles:
    """What samples say; without undisturbed ones nothing: infinite cycles."""
    counted = sorted(
        sample.ns / sample.chain_ns * chain_cycles
        for sample in samples
        if not sample.disturbed and sample.chain_ns > 0
    )
    if not counted:
        return RunCycles(float("inf"), float("inf"), 0, len(samples))
    low, middle, high = (_quantile(counted, part) for part in (0.25, 0.5, 0.75))
    return RunCycles(low, (high - low) / middle, len(counted), len(samples))


def _quantile(values: Sequence[float], part: float) -> float:
    """A quantile of sorted values, interpolated."""
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def rates(measured: Mapping[str, RunCycles], probes: Mapping[str, int]) -> dict[str, float]:
    """Bytes a cycle of the probes that were steady, by name; `probes` has the bytes of each."""
    return {n: probes[n] / one.cycles for n, one in measured.items() if one.steady}


def facts(rate: Mapping[str, float]) -> dict[str, float]:
    """The facts of `MachineFacts` that rates say, rounded; those that they do not say are left
    out.
    """
    found = {
        fact: rate[name]
        for name, fact in (("l2", "l2_rate"), ("l3", "l3_rate"), ("memory", "memory_rate"))
        if name in rate
    }
    if "l2" in rate:
        if "rows_stride" in rate:
            found["stride_penalty"] = max(rate["l2"] / rate["rows_stride"] - 1, 2.0**-6)
        if PARTS.keys() <= rate.keys():
            holds = (part for name, part in PARTS.items() if rate[name] >= FULL * rate["l2"])
            found["l2_part"] = next(holds, 0.5)
    made = {name: rounded(value) for name, value in found.items()}
    return {name: value for name, value in made.items() if LIMITS[name].holds(value)}


def rounded(value: float) -> float:
    """The nearest power of 2^(1/4), to four digits."""
    return float(f"{2 ** (round(STEPS * log2(value)) / STEPS):.4g}")


def _disturbances() -> tuple[object, ...]:
    """What changes when something else has run: switches that the thread did not ask for, its
    processor, and the time that a hypervisor took.
    """
    usage = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
    return usage.ru_nivcsw, _word("/proc/thread-self/stat", -14), _word("/proc/stat", 8)


def _word(file: str, number: int) -> str:
    """A word of a file's first line, if the system has it."""
    try:
        with Path(file).open(encoding="ascii", errors="replace") as opened:
            return opened.readline().split()[number]
    except (OSError, IndexError):
        return ""
