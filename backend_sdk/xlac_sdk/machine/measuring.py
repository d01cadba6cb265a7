"""Measures facts of a machine from samples of a backend's probes.

A sample is one run of a probe between two runs of a chain of dependent additions, whose cycle count
is known: so cycles are measured at the core's clock frequency of that moment. A sample during which
the thread was preempted or migrated, or the hypervisor took the processor, is dropped. The result
of a probe is the lower quartile of at least `LEAST` samples; where the quartiles are more than
`SPREAD` apart, or too few samples remain, the probe has no result and the shipped fact is used.
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

LEAST, MOST = 15, 60  # samples required, samples taken at most
SPREAD = 0.15  # the largest distance of the quartiles, as a share of the median
STEPS = 4  # facts are rounded to powers of 2^(1/4), so that equal machines have equal facts
FULL = 0.85  # data counts as cached if it is read at this share of the rate of half as much data
# probes of parts of the second-level cache
PARTS = {"l2_whole": 1.0, "l2_most": 0.84, "l2_part": 0.71}


class TimedProbe(NamedTuple):
    """A probe; one run reads `nbytes` bytes, and takes about a millisecond."""

    name: str
    nbytes: int
    run: Callable[[], object]


class Probes(NamedTuple):
    """The probes of a backend: a chain that takes `chain_cycles` cycles at any clock frequency, and
    timed probes. These names have a meaning: `l1`, `l2` (half of it), `l3`, `memory`, those in
    `PARTS`, and `rows_stride` for rows, 2^k bytes apart, of a panel smaller than the second-level
    cache.
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
    share of the median, and the number of samples used and taken.
    """

    cycles: float
    spread: float
    counted: int
    taken: int

    @property
    def steady(self) -> bool:
        """Whether it is reliable."""
        return self.counted >= LEAST and self.spread <= SPREAD


def sampled(probe: TimedProbe, probes: Probes) -> list[TimedRun]:
    """Samples of a probe, until `LEAST` are undisturbed or `MOST` are taken."""
    samples: list[TimedRun] = []
    probe.run()  # what it reads is where it will be
    while len(samples) < MOST and sum(not sample.disturbed for sample in samples) < LEAST:
        before, first = _disturbances(), time.perf_counter_ns()
        probes.chain()
        second = time.perf_counter_ns()
        probe.run()
        third = time.perf_counter_ns()
        probes.chain()
        last = time.perf_counter_ns()
        chain = (second - first + last - third) / 2
        samples.append(TimedRun(third - second, chain, _disturbances() != before))
    return samples


def summary(samples: Sequence[TimedRun], chain_cycles: float) -> RunCycles:
    """The result of samples; infinite cycles where all were disturbed."""
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
    """A quantile of sorted values, linearly interpolated."""
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def rates(measured: Mapping[str, RunCycles], probes: Mapping[str, int]) -> dict[str, float]:
    """Bytes per cycle of the steady probes, by name; `probes` has the bytes of each."""
    return {n: probes[n] / one.cycles for n, one in measured.items() if one.steady}


def facts(rate: Mapping[str, float]) -> dict[str, float]:
    """The facts of `MachineFacts` that follow from rates, rounded; others are absent."""
    facts = {
        fact: rate[name]
        for name, fact in (("l2", "l2_rate"), ("l3", "l3_rate"), ("memory", "memory_rate"))
        if name in rate
    }
    if "l2" in rate:
        if "rows_stride" in rate:
            facts["stride_penalty"] = max(rate["l2"] / rate["rows_stride"] - 1, 2.0**-6)
        if PARTS.keys() <= rate.keys():
            holds = (part for name, part in PARTS.items() if rate[name] >= FULL * rate["l2"])
            facts["l2_part"] = next(holds, 0.5)
    rounded_facts = {name: rounded(value) for name, value in facts.items()}
    return {name: value for name, value in rounded_facts.items() if LIMITS[name].holds(value)}


def rounded(value: float) -> float:
    """The nearest power of 2^(1/4), to four digits."""
    return float(f"{2 ** (round(STEPS * log2(value)) / STEPS):.4g}")


def _disturbances() -> tuple[object, ...]:
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
