"""The process that builds and times programs for tuning. It may crash: the process that asks starts
another, and remembers what it asked.

It reads requests and writes answers, each a line of JSON. Schedules are plain data, by part.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import IO, Any

import numpy as np

from xlac.codegen.schedules.schedule import Schedule, from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.debug import profile
from xlac.debug.decisions import kernels_of, label
from xlac.debug.tune.group_programs import GroupProgram, GroupPrograms, other_templates
from xlac.debug.tune.placed_programs import PlacedPrograms, asked_of
from xlac.debug.tune.race import race
from xlac.debug.tune.stamped_model import (
    GroupsOfKernels,
    StampedModel,
    TunedModel,
    in_turn,
    lower_quartile,
)
from xlac_sdk.programs.program import Role
from xlac_sdk.source import SourceError, XlacError

Answer = dict[str, Any]
Parts = Mapping[str, Schedule]

BURSTS = 5
FILL = 50e-6  # seconds that a group's kernels run in a call, of a model that fits the caches
MOST = 64  # the most times that a call runs them
FLUSHED = 32 << 20  # the most bytes that are read to displace what caches hold


class TuningWorker:
    """Answers requests about one model."""

    def __init__(self, model: TunedModel) -> None:
        self.given = model
        self.placed: Mapping[str, str] = {}
        self._begin(model)

    def _begin(self, model: TunedModel) -> None:
        self.model, self.kernels = model, GroupsOfKernels(model.lowered)
        self.by_name = self.kernels.by_name
        self.programs: dict[str, GroupPrograms] = {}
        self.seconds: dict[str, float] = {}  # of a call, by group
        self.flush = self._flush()

    def place(self, placed: Mapping[str, str]) -> None:
        """Makes rewrites and has values computed as `placed` says, in place of what the compiler
        chose.
        """
        if placed != self.placed:
            lowered = self.given.lowered_with(asked_of(placed))
            self._begin(replace(self.given, lowered=lowered))
            self.placed = dict(placed)

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """The answer to a request: `ask` says which."""
        if request["ask"] in ("rewrites", "choices", "race_placements", "confirm_placements"):
            return self.of_placements(request)
        self.place(request.get("placed", {}))
        match request["ask"]:
            case "groups":
                return {"groups": self.groups(request["seconds"])}
            case "race":
                return self.race(request)
            case "confirm":
                parts = {name: _parts(one) for name, one in request["groups"].items()}
                return {"pairs": self.confirm(parts, request["seconds"])}
        raise ValueError(f"unknown request {request['ask']!r}")

    def of_placements(self, request: Mapping[str, Any]) -> Answer:
        """The answer to a request about rewrites and where values are computed."""
        programs, seconds = self.placed_programs, request["seconds"]
        match request["ask"]:
            case "rewrites":
                return {"choices": programs.rewrites(seconds)}
            case "choices":
                return {"choices": programs.choices(seconds, request["best"])}
            case "race_placements":
                best, other, limit = request["best"], request["other"], request["limit"]
                return programs.race(best, other, seconds, request["rounding"], limit)
        return {"pairs": programs.pairs({}, request["best"], seconds, BURSTS)}

    @cached_property
    def placed_programs(self) -> PlacedPrograms:
        """Programs of the whole model."""
        return PlacedPrograms(self.given)

    # ---- the groups of the model -------------------------------------------------------------

    def groups(self, seconds: float) -> list[Answer]:
        """The groups whose kernels the model's steps call, the dearest first, with the compiler's
        schedules and the seconds of a call.
        """
        model = self.model
        profiled = profile.take(model.lowered, model.backend, model.inputs, seconds, model.begin)
        spent: dict[str, float] = {}
        for row in profiled.rows:
            if (name := self.kernels.group_of(row.name)) is not None:
                spent[name] = spent.get(name, 0.0) + row.seconds
        self.seconds = spent
        described = []
        for name, seconds_of_group in sorted(spent.items(), key=lambda entry: -entry[1]):
            group = self.by_name[name]
            parts = model.lowered.schedules(group).schedules
            kernels = ", ".join(k.name for k in kernels_of(model.lowered, group))
            values = ", ".join(map(label, group.outputs))
            described.append(
                {
                    "name": name,
                    "what": f"{group.kind.value}: {kernels} computes {values}",
                    "seconds": seconds_of_group,
                    "share": seconds_of_group / max(profiled.seconds, 1e-12),
                    "parts": _data(parts),
                    "others": {
                        part: [to_data(schedule) for schedule in offered]
                        for part, offered in other_templates(group, model.lowered.target).items()
                    },
                }
            )
        return described

    # ---- one group alone ---------------------------------------------------------------------

    def race(self, request: Mapping[str, Any]) -> Answer:
        """Times a schedule of a group beside another one, alone and on random inputs. The results
        of one that takes at most `limit` times as long are compared with the compiler's.
        """
        self.seconds.setdefault(request["group"], request["of_call"])
        programs = self._programs(request["group"])
        best, other = _parts(request["best"]), _parts(request["other"])
        try:
            first, second = programs.known(best), _lowered(programs, best, other)
        except XlacError as error:
            return {"why": "misfit", "text": str(error)}
        if first.text == second.text:
            return {"why": "same"}
        times = race(programs.call(first), programs.call(second), request["seconds"], self.flush)
        if times.ratio <= request["limit"] and not programs.alike(second, request["rounding"]):
            return {"why": "rounding"}
        return {"why": "measured", "ratio": times.ratio, "parts": _data(second.parts)}

    def _programs(self, name: str) -> GroupPrograms:
        if name not in self.programs:
            self.programs.clear()  # its arrays may be large
            seconds = self.seconds.get(name, FILL)
            repeats = 1 if self.flush else max(1, min(MOST, int(FILL / max(seconds, 1e-9))))
            self.programs[name] = GroupPrograms(
                self.by_name[name], self.model.lowered, self.model.backend, repeats
            )
        return self.programs[name]

    def _flush(self) -> Callable[[], object] | None:
        """What displaces a group's data from the caches as the rest of the model would; None where
        all of the model's data stay in the second-level cache, and on a GPU.
        """
        program, target = self.model.lowered.program, self.model.lowered.target
        constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
        size = program.arena_bytes + constants
        if target.device == "gpu" or size <= target.l2_bytes:
            return None
        block = np.ones(min(size, FLUSHED) // 8, np.int64)
        return block.sum

    # ---- in place ----------------------------------------------------------------------------

    def confirm(self, wanted: Mapping[str, Parts], seconds: float) -> dict[str, Any]:
        """For each group the seconds of its kernels in calls of the whole model, with the
        compiler's schedules and with others, in turn: the lower quartiles of each burst. Those of
        the group "" are of all steps.
        """
        model = self.model
        asked = asked_of(self.placed, wanted)
        usual = StampedModel(model, model.lowered)
        other = StampedModel(model, model.lowered_with(asked))
        for side in (usual, other):
            side.spent()
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in (*wanted, "")}
        for _ in range(BURSTS):
            taken = in_turn(usual, other, seconds / BURSTS)
            rate = usual.rate()
            for name, pair in pairs.items():
                before, after = (
                    lower_quartile(call.get(name, 0.0) for call in calls) for calls in taken
                )
                if before > 0 and after > 0:
                    pair.append((before * rate, after * rate))
        return dict(pairs)


def _lowered(programs: GroupPrograms, best: Parts, other: Parts) -> GroupProgram:
    """The group with other schedules. Where they do not go with those of its other parts, these are
    left to the compiler. Raises SourceError where they do not fit.
    """
    try:
        return programs.program(other)
    except SourceError:
        changed = {part: one for part, one in other.items() if best.get(part) != one}
        if len(changed) == len(other):
            raise
        return programs.program(changed)


def _parts(data: Mapping[str, Any]) -> dict[str, Schedule]:
    return {part: from_data(one, TEMPLATES) for part, one in data.items()}


def _data(parts: Parts) -> dict[str, Any]:
    return {part: to_data(one) for part, one in parts.items()}


def serve(model: TunedModel, requests: IO[str], answers: IO[str]) -> None:
    """Answers requests until there are no more. An error is an answer too: `why` is "failed"."""
    worker = TuningWorker(model)
    for line in requests:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.name}, line {last.lineno}"
            answer = {"why": "failed", "text": f"{type(error).__name__}: {error} ({where})"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
