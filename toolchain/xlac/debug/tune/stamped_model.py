"""Calls of a whole model with time stamps between its steps: each group is timed in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from xlac.codegen.schedules.digest import digest
from xlac.codegen.schedules.document import Asked
from xlac.debug import profile
from xlac.debug.decisions import groups, kernels_of
from xlac.debug.profile_log import LOG, StampLog
from xlac.driver import Lowered
from xlac.fusion.group import Group
from xlac.ir.op import Array
from xlac.runtime.compiled import Compiled
from xlac_sdk.backend import Backend
from xlac_sdk.programs.program import Launch

VARIANT = re.compile(r"(_in_place_\d+)?(_backward)?(_in_place_\d+)?$")
"""What a program adds to the name of a group's kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class TunedModel:
    """A model lowered with the compiler's own schedules, and what lowers it with others; the arrays
    that it is called with, and what gives it its first state.
    """

    lowered: Lowered
    lowered_with: Callable[[Asked], Lowered]
    backend: Backend
    inputs: Sequence[Array]
    begin: Callable[[Compiled], object]


class GroupsOfKernels:
    """The groups of a lowered model by the names of their structures, and by their kernels."""

    def __init__(self, lowered: Lowered) -> None:
        self.by_name: dict[str, Group] = {}
        self.of_kernel: dict[str, str] = {}
        for _, group in groups(lowered.partition):
            if kernels := kernels_of(lowered, group):
                name = digest(group)
                self.by_name.setdefault(name, group)
                self.of_kernel.update((kernel.name, name) for kernel in kernels)

    def group_of(self, kernel: str) -> str | None:
        """The group that a launched kernel belongs to; None for one that loops were fused into."""
        return self.of_kernel.get(kernel) or self.of_kernel.get(VARIANT.sub("", kernel))


class StampedModel:
    """A program of a model with time stamps, and the ticks that each group takes in a call."""

    def __init__(self, model: TunedModel, lowered: Lowered) -> None:
        self.call, timed, self.parts = profile.stamped(
            lowered, model.backend, model.inputs, model.begin
        )
        kernels = GroupsOfKernels(lowered)
        steps: dict[str, list[int]] = {}
        for number, step in enumerate(timed):
            name = kernels.group_of(step.kernel.name) if isinstance(step, Launch) else None
            if name is not None:
                steps.setdefault(name, []).append(number)
        self.of_step = {name: np.array(numbers) for name, numbers in steps.items()}
        self.steps = len(timed)
        self.begun: tuple[float, int] | None = None
        self.last = (0.0, 0)
        # without the log, of the first call
        self.outputs = {name: array for name, array in self._called().items() if name != LOG}

    def spent(self) -> dict[str, float]:
        """Calls the program: ticks by group, and of all steps under ""."""
        log = StampLog.of(self._called()[LOG], self.parts)
        self.last = (perf_counter(), int(log.stamps[-1]))
        self.begun = self.begun or self.last
        ticks = np.zeros(self.steps)
        np.add.at(ticks, log.codes - 1, np.diff(log.stamps))
        spent = {name: float(ticks[steps].sum()) for name, steps in self.of_step.items()}
        return {**spent, "": float(ticks.sum())}

    def rate(self) -> float:
        """Seconds of a tick, from all calls so far."""
        assert self.begun is not None
        return (self.last[0] - self.begun[0]) / max(self.last[1] - self.begun[1], 1)

    def _called(self) -> dict[str, Array]:
        return dict(self.call())


def in_turn(
    first: StampedModel, second: StampedModel, seconds: float
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """What each call of two programs spends, by group, in calls in turn for some seconds."""
    taken: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    end = perf_counter() + seconds
    while not taken[1] or perf_counter() < end:
        taken[0].append(first.spent())
        taken[1].append(second.spent())
    return taken


def lower_quartile(calls: Iterable[float]) -> float:
    """The time of a burst's calls: what else runs makes calls longer."""
    return float(np.percentile(list(calls), 25))
