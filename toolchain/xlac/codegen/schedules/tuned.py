"""What `xlac tune` found: schedules of groups, how much faster each was, and the machine that they
were measured on. The document is one of schedules (`document.py`) with a section `tuned`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Placement
from xlac.passes.rewrite.choices import WORDS
from xlac_sdk.kernel_ir.matrix_tiles import MULTIPLY
from xlac_sdk.target import Target

SECTION = "tuned"
KEYS = frozenset({"machine", "groups", "values"})

FACTS = (
    "threads", "fast", "vector_bytes", "vector_registers", "masked", "gathers", "fma", "warp",
    "block_threads", "shared_bytes", "most_lanes",
)  # fmt: skip
"""Facts of a target without which a schedule may not fit, or was not measured."""


def machine_of(target: Target) -> dict[str, Any]:
    """The facts that the target of a program must share with the machine that its schedules were
    measured on; further ones (caches, the processor) are told only. So are the instructions of a
    CPU's matrix unit: a schedule that needs them says so itself.
    """
    facts = {"target": target.name, **{name: getattr(target, name) for name in FACTS}}
    needed = target.instructions - frozenset(MULTIPLY.values())
    return {**facts, "instructions": " ".join(sorted(needed))}


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
        numbers = [data["default_us"], data["tuned_us"], data["measured"]]
        if not all(_is_number(n) and n >= 0 for n in numbers):
            raise ValueError("default_us, tuned_us and measured must be numbers from 0")
        if type(data["what"]) is not str or type(data["finished"]) is not bool:
            raise ValueError("what must be text, and finished true or false")
        return TunedGroup(**{**data, "faster": _interval(data["faster"])}, parts=parts)


@dataclass(frozen=True, slots=True)
class TunedChoice:
    """What was found for one value, or one rewrite: `what` it is, the `word` that says where the
    value is computed, or whether the rewrite is made ("": the compiler's choice was best), and the
    interval of 95 % of how many times as fast the groups are that differ, with everything that was
    kept.
    """

    what: str
    faster: tuple[float, float] = (1.0, 1.0)
    word: str = ""

    def to_data(self) -> dict[str, Any]:
        """Everything but the word, as plain data."""
        return {"what": self.what, "faster": [round(end, 4) for end in self.faster]}

    @staticmethod
    def from_data(data: Any, word: str) -> TunedChoice:
        """The inverse. Raises ValueError, which says what is wrong."""
        if not isinstance(data, Mapping) or sorted(data) != ["faster", "what"]:
            raise ValueError("it must be a mapping of what, faster")
        if type(data["what"]) is not str:
            raise ValueError("what must be text")
        return TunedChoice(data["what"], _interval(data["faster"]), word)


@dataclass(frozen=True, slots=True)
class TuningRecords:
    """The tuned groups of one or more models, by the names of their structures, for one machine;
    and the values of which other placements, and the rewrites, that were tried, by theirs.
    """

    machine: Mapping[str, Any]
    groups: Mapping[str, TunedGroup] = field(default_factory=dict)
    values: Mapping[str, TunedChoice] = field(default_factory=dict)

    def with_group(self, name: str, group: TunedGroup) -> TuningRecords:
        """The records with one more group, or another entry for one."""
        return replace(self, groups={**self.groups, name: group})

    def with_value(self, name: str, value: TunedChoice) -> TuningRecords:
        """The records with one more value or rewrite, or another entry for one."""
        return replace(self, values={**self.values, name: value})

    def placements(self) -> dict[str, Placement]:
        """The placements of values for which others than fusion's are faster."""
        words = {each.value: each for each in Placement}
        return {name: words[v.word] for name, v in self.values.items() if v.word in words}

    def rewrites(self) -> dict[str, bool]:
        """The rewrites that are faster made, or left out, where the passes do otherwise."""
        return {name: WORDS[v.word] for name, v in self.values.items() if v.word in WORDS}

    def schedules(self) -> dict[str, Mapping[str, Schedule]]:
        """The schedules of groups for which faster ones were found."""
        return {name: group.parts for name, group in self.groups.items() if group.parts}


def from_data(
    data: Any, schedules: Mapping[str, Mapping[str, Schedule]], words: Mapping[str, str]
) -> TuningRecords:
    """The records of a section `tuned`; `words` are placements and rewrites. Raises ValueError,
    which says what is wrong.
    """
    if not isinstance(data, Mapping) or {"machine", "groups"} - set(data) or set(data) - KEYS:
        raise ValueError("it must be a mapping of machine, groups and values")
    machine, groups, values = data["machine"], data["groups"], data.get("values", {})
    if not all(isinstance(one, Mapping) for one in (machine, groups, values)):
        raise ValueError("machine, groups and values must be mappings")
    for name in schedules:
        if name not in groups:
            raise ValueError(f"groups lacks {name}, which has schedules")
    for name in words:
        if name not in values:
            raise ValueError(f"values lacks {name}, which is to be {words[name]}")
    made: dict[str, TunedGroup] = {}
    tried: dict[str, TunedChoice] = {}
    for name, entry in (*groups.items(), *values.items()):
        section = "values" if name in values else "groups"
        try:
            if name in values:
                tried[name] = TunedChoice.from_data(entry, words.get(name, ""))
            else:
                made[name] = TunedGroup.from_data(entry, schedules.get(name, {}))
        except ValueError as error:
            raise ValueError(f"{section} {name}: {error}") from None
    return TuningRecords(dict(machine), made, tried)


def to_data(records: TuningRecords) -> dict[str, Any]:
    """The section `tuned` as plain data; `from_data` is the inverse."""
    return {
        "machine": dict(records.machine),
        "groups": {name: group.to_data() for name, group in records.groups.items()},
        "values": {name: value.to_data() for name, value in records.values.items()},
    }


def section(records: TuningRecords) -> list[str]:
    """The section `tuned` as lines of YAML."""
    lines = [f"{SECTION}:", "  machine:"]
    lines += [f"    {name}: {_scalar(value)}" for name, value in records.machine.items()]
    lines.append("  groups:" if records.groups else "  groups: {}")
    lines += _entries(records.groups)
    if records.values:
        lines += ["  values:", *_entries(records.values)]
    return lines


def _entries(entries: Mapping[str, TunedGroup] | Mapping[str, TunedChoice]) -> list[str]:
    lines: list[str] = []
    for name, entry in entries.items():
        lines.append(f"    {name}:")
        lines += [f"      {key}: {_scalar(value)}" for key, value in entry.to_data().items()]
    return lines


def _scalar(value: Any) -> str:
    """A number, a truth, text or a list of numbers in YAML; the notation of JSON is YAML too."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _interval(ends: Any) -> tuple[float, float]:
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_number, ends)):
        raise ValueError("faster must be a list of two numbers")
    if min(ends) < 0:
        raise ValueError("faster must be two numbers from 0")
    return ends[0], ends[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def geometric_mean(factors: Iterable[float]) -> float:
    """The geometric mean of positive numbers; 1 of none."""
    logs = [math.log(factor) for factor in factors]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
