"""Measures this machine's facts by the probes of a backend, and keeps those that were steady."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from xlac.support import measured_facts
from xlac.support.measured_facts import Facts
from xlac_sdk.backend import Backend
from xlac_sdk.host.registry import find
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import Probes, RunCycles, TimedProbe
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request

VECTORS = ("fma_", "exp")  # how names of probes begin whose amounts are vectors, not bytes


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results of a measurement: cycles of each probe, its bytes or vectors, and the facts
    derived.
    """

    probes: dict[str, RunCycles]
    amounts: dict[str, int]
    facts: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The measurement for the file: rate, spread, samples and clock of each probe."""
        return {
            name: {
                unit(name): round(self.amounts[name] / one.cycles, 3),
                "spread": round(one.spread, 3),
                "samples": [one.counted, one.taken],
                "ghz": round(one.clock, 2),
            }
            for name, one in self.probes.items()
            if one.counted
        }


def unit(probe: str) -> str:
    """The unit of a probe's rate: bytes or vectors per cycle."""
    return "vectors_per_cycle" if probe.startswith(VECTORS) else "bytes_per_cycle"


def measure(backend: Backend, tell: Callable[[str], object]) -> Measurement:
    """Measures all probes; `tell` gets a line for each. Raises UnsupportedError for a backend
    without probes.
    """
    probes = backend.probes(backend.target(Request()))
    if probes is None:
        problem = f"the {backend.name} backend has nothing that measures a machine"
        raise UnsupportedError(Diagnostic("XL5043", problem, hint="--target cpu has"))
    cycles = _taken(probes, tell)
    amounts = {probe.name: probe.nbytes for probe in probes.probes}
    rates, ranges = measuring.rates(cycles, amounts), measuring.ranges(cycles, amounts)
    return Measurement(cycles, amounts, measuring.facts(rates, ranges))


def _taken(probes: Probes, tell: Callable[[str], object]) -> dict[str, RunCycles]:
    cycles: dict[str, RunCycles] = {}
    for probe in probes.probes:
        one = measuring.summary(measuring.sampled(probe, probes), probes.chain_cycles)
        cycles[probe.name] = one
        tell(f"{probe.name:<13} {_described(probe, one)}")
    return cycles


def _described(probe: TimedProbe, one: RunCycles) -> str:
    """The result of a probe in words."""
    if not one.counted:
        return f"nothing: all of {one.taken} samples were disturbed"
    words = unit(probe.name).replace("_per_", " per ")
    rate = f"{probe.nbytes / one.cycles:7.2f} {words} at {one.clock:.2f} GHz"
    verdict = "" if one.steady else "; too unsteady to be used"
    counted = f"{one.counted} of {one.taken} samples undisturbed"
    return f"{rate}, quartiles {one.spread:.0%} apart, {counted}{verdict}"


def keep(measurement: Measurement) -> str:
    """Stores the facts for compilations on this machine; returns the file's name. Raises
    SourceError without a cache, and for a folder that cannot be written to.
    """
    try:
        return measured_facts.keep(measurement.facts, measurement.to_json())
    except ValueError:
        problem = "the cache is off, and what is measured is kept beside it"
        raise SourceError(Diagnostic("XL5041", problem)) from None
    except OSError as error:
        problem = f"what was measured cannot be kept: {error}"
        raise SourceError(Diagnostic("XL5043", problem, hint="XLAC_CACHE names a folder")) from None


@cache
def measured_once() -> Facts:
    """Measures this machine for XLAC_MEASURE=1, once in a process, and keeps what was found, also
    where that is nothing; without a cache it is used and not kept.
    """
    measurement = measure(find("cpu"), lambda line: None)
    with suppress(SourceError):
        keep(measurement)
    return measured_facts.ordered(measurement.facts)
