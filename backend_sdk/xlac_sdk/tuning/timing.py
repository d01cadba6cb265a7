"""Probes as something to call: programs compiled by a backend, and the least times of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from xlac_sdk.backend import Backend
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

Run = Callable[[], object]
SECONDS = 1.0  # for each group of probes that are compared
LEAST = 5  # runs of each


def compiled(program: Program, backend: Backend, target: Target) -> Run:
    """A function that runs a probe once, and waits for its end. Raises what the backend raises."""
    with tempfile.TemporaryDirectory(prefix="xlac-tune-") as folder:
        artifact = backend.build(backend.emit(program, target), Path(folder))
        executable = backend.load(artifact, program, target)
    (given,), (wanted,) = program.inputs, program.outputs
    inputs = {given.name: np.array([0.5, 1.0, 2.0, 3.0]).astype(given.dtype.numpy)}
    outputs = {wanted.name: np.zeros(wanted.size, wanted.dtype.numpy)}
    return lambda: executable.run(inputs, outputs)


def least(runs: Mapping[str, Run], seconds: float = SECONDS) -> dict[str, float]:
    """The least seconds of a run of each, in turn, so that what else runs on the machine meets
    all of them.
    """
    shortest = dict.fromkeys(runs, inf)
    for run in runs.values():
        run()  # what it reads is where it will be
    begin, turns = time.perf_counter(), 0
    while turns < LEAST or time.perf_counter() < begin + seconds:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            shortest[name] = min(shortest[name], time.perf_counter() - start)
        turns += 1
    return shortest


@dataclass(frozen=True)
class Times:
    """The least seconds of some programs by their numbers, measured twice: what both measurements
    say is steady.
    """

    halves: Sequence[Mapping[int, float]]

    @staticmethod
    def of(runs: Mapping[str, Run]) -> Times:
        """Measures them."""
        found = [least(runs, SECONDS / 2) for _ in range(2)]
        return Times([{int(n): time for n, time in half.items()} for half in found])

    @property
    def least(self) -> dict[int, float]:
        """The lesser seconds of each."""
        return {n: min(half[n] for half in self.halves) for n in self.halves[0]}

    def rates(self, rate: Callable[[int, float], float], unit: int = 1) -> list[dict[int, float]]:
        """Rates from numbers and seconds, by the numbers in units."""
        return [{unit * n: rate(n, time) for n, time in half.items()} for half in self.halves]
