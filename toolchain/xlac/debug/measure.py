"""Measures this machine's facts by the probes of a backend, and keeps those that were steady."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlac.support import measured_facts
from xlac_sdk.backend import Backend
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import Probes, RunCycles
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request


@dataclass(frozen=True, slots=True)
class Measurement:
    """The results of a measurement: cycles of each probe, its bytes, and the facts derived."""

    probes: dict[str, RunCycles]
    nbytes: dict[str, int]
    facts: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The measurement for the file: bytes per cycle, spread and samples of each probe."""
        return {
            name: {
                "bytes_per_cycle": round(self.nbytes[name] / one.cycles, 3),
                "spread": round(one.spread, 3),
                "samples": [one.counted, one.taken],
            }
            for name, one in self.probes.items()
            if one.counted
        }


def measure(backend: Backend, tell: Callable[[str], object]) -> Measurement:
    """Measures all probes; `tell` gets a line for each. Raises UnsupportedError for a backend
    without probes.
    """
    probes = backend.probes(backend.target(Request()))
    if probes is None:
        problem = f"the {backend.name} backend has nothing that measures a machine"
        raise UnsupportedError(Diagnostic("XL5043", problem, hint="--target cpu has"))
    cycles = _taken(probes, tell)
    nbytes = {probe.name: probe.nbytes for probe in probes.probes}
    return Measurement(cycles, nbytes, measuring.facts(measuring.rates(cycles, nbytes)))


def _taken(probes: Probes, tell: Callable[[str], object]) -> dict[str, RunCycles]:
    cycles: dict[str, RunCycles] = {}
    for probe in probes.probes:
        one = measuring.summary(measuring.sampled(probe, probes), probes.chain_cycles)
        cycles[probe.name] = one
        rate = f"{probe.nbytes / one.cycles:7.2f} bytes a cycle" if one.counted else "nothing"
        verdict = "" if one.steady else "; too unsteady to be used"
        tell(
            f"{probe.name:<12} {rate}, quartiles {one.spread:.0%} apart, "
            f"{one.counted} of {one.taken} samples undisturbed{verdict}"
        )
    return cycles


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
