"""What `xlac tune` found: schedules of groups, how much faster each was, and the machine that they
were measured on. The document is one of schedules (`document.py`) with a section `tuned`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from xlac.codegen.schedules.schedule import Schedule
from xlac_sdk.target import Target

SECTION = "tuned"

FACTS = (
    "threads", "fast", "vector_bytes", "vector_registers", "masked", "gathers", "fma", "warp",
    "block_threads", "shared_bytes",
)  # fmt: skip
"""Facts of a target without which a schedule may not fit, or was not measured."""


def machine_of(target: Target) -> dict[str, Any]:
    """The facts that the target of a program must share with the machine that its schedules were
    measured on; further ones (caches, the processor) are told only.
    """
    facts = {"target": target.name, **{name: getattr(target, name) for name in FACTS}}
    return {**facts, "instructions": " ".join(sorted(target.instructions))}


def differences(machine: Mapping[str, Any], target: Target) -> list[str]:
    """Why schedules of a machine may not be used for a target, a line for each fact; empty where
    they may.
    """
    return [
        f"{name} was {machine.get(name)!r}, and is {value!r}"
        for name, value in machine_of(target).items()
        if machine.get(name) != value
    ]


@dataclass(frozen=True, slots=True)
class TunedGroup:
    """What was found for one group: `what` it computes, microseconds of its kernels with the
    compiler's schedules and with those found, the interval of 95 % of how many times as fast they
    are, how many schedules were measured, and whether no neighbour of the best is left to try.
    """

    what: str
    default_us: float
    tuned_us: float
    faster: tuple[float, float]
    measured: int
    finished: bool
    parts: Mapping[str, Schedule] = field(default_factory=dict)  # empty: the compiler's

    def to_data(self) -> dict[str, Any]:
        """Everything but the schedules, as plain data."""
        return {
            "what": self.what,
            "default_us": round(self.default_us, 3),
            "tuned_us": round(self.tuned_us, 3),
            "faster": [round(end, 4) for end in self.faster],
            "measured": self.measured,
            "finished": self.finished,
        }

    @staticmethod
    def from_data(data: Any, parts: Mapping[str, Schedule]) -> TunedGroup:
        """The inverse. Raises ValueError, which says what is wrong."""
        known = [f.name for f in fields(TunedGroup) if f.name != "parts"]
        if not isinstance(data, Mapping) or sorted(data) != sorted(known):
            raise ValueError(f"it must be a mapping of {', '.join(known)}")
        faster = data["faster"]
        numbers = [data["default_us"], data["tuned_us"], data["measured"]]
        if not isinstance(faster, list) or len(faster) != 2:
            raise ValueError("faster must be a list of two numbers")
        if not all(_is_number(n) and n >= 0 for n in (*numbers, *faster)):
            raise ValueError("default_us, tuned_us, measured and faster must be numbers from 0")
        if type(data["what"]) is not str or type(data["finished"]) is not bool:
            raise ValueError("what must be text, and finished true or false")
        return TunedGroup(**{**data, "faster": (faster[0], faster[1])}, parts=parts)


@dataclass(frozen=True, slots=True)
class TuningRecords:
    """The tuned groups of one or more models, by the names of their structures, for one machine."""

    machine: Mapping[str, Any]
    groups: Mapping[str, TunedGroup] = field(default_factory=dict)

    def with_group(self, name: str, group: TunedGroup) -> TuningRecords:
        """The records with one more group, or another entry for one."""
        return replace(self, groups={**self.groups, name: group})

    def schedules(self) -> dict[str, Mapping[str, Schedule]]:
        """The schedules of groups for which faster ones were found."""
        return {name: group.parts for name, group in self.groups.items() if group.parts}


def from_data(data: Any, schedules: Mapping[str, Mapping[str, Schedule]]) -> TuningRecords:
    """The records of a section `tuned`. Raises ValueError, which says what is wrong."""
    if not isinstance(data, Mapping) or sorted(data) != ["groups", "machine"]:
        raise ValueError("it must be a mapping of machine and groups")
    machine, groups = data["machine"], data["groups"]
    if not all(isinstance(one, Mapping) for one in (machine, groups)):
        raise ValueError("machine and groups must be mappings")
    for name in schedules:
        if name not in groups:
            raise ValueError(f"groups lacks {name}, which has schedules")
    made: dict[str, TunedGroup] = {}
    for name, entry in groups.items():
        try:
            made[name] = TunedGroup.from_data(entry, schedules.get(name, {}))
        except ValueError as error:
            raise ValueError(f"groups {name}: {error}") from None
    return TuningRecords(dict(machine), made)


def section(records: TuningRecords) -> list[str]:
    """The section `tuned` as lines of YAML."""
    lines = [f"{SECTION}:", "  machine:"]
    lines += [f"    {name}: {_scalar(value)}" for name, value in records.machine.items()]
    lines.append("  groups:" if records.groups else "  groups: {}")
    for name, group in records.groups.items():
        lines.append(f"    {name}:")
        lines += [f"      {key}: {_scalar(value)}" for key, value in group.to_data().items()]
    return lines


def _scalar(value: Any) -> str:
    """A number, a truth, text or a list of numbers in YAML; the notation of JSON is YAML too."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def geometric_mean(factors: Iterable[float]) -> float:
    """The geometric mean of positive numbers; 1 of none."""
    logs = [math.log(factor) for factor in factors]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
