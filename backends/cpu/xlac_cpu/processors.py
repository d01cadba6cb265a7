"""The table of processors in `processors.json`: machine facts by LLVM's names of processors, each
entry with its source, some with features (`marks`) that no other entry's processors have. Names
without an entry, such as x86-64-v3, which is no one processor, have the defaults of `MachineFacts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from xlac_sdk.machine_facts import MachineFacts

TABLE = Path(__file__).with_name("processors.json")


@cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    return dict(json.loads(TABLE.read_text(encoding="utf-8")))


def _also(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(entry.get("also", ()))


@cache
def table() -> Mapping[str, MachineFacts]:
    """The table's facts by LLVM's name of the processor. Raises ValueError for a fact that is
    out of bounds.
    """
    facts: dict[str, MachineFacts] = {}
    for name, entry in _entries().items():
        for each in (name, *_also(entry)):
            facts[each] = MachineFacts.from_json({"processor": each, **entry["facts"]})
    return facts


def named(cpu: str, flags: Mapping[str, bool]) -> str:
    """The name of the processor that has the features `flags` and that LLVM calls `cpu`: another
    one's where an entry's marks say so. Virtual machines may report the model number of a
    processor that has fewer features; those are asked for one by one, and are right.
    """
    for name, entry in _entries().items():
        marks = entry.get("marks", ())
        if marks and all(flags.get(mark) for mark in marks) and cpu not in (name, *_also(entry)):
            return name
    return cpu


def shipped(cpu: str, system: Mapping[str, Any]) -> MachineFacts:
    """The facts of a processor: the table's, or defaults, replaced by those that the operating
    system reports (`system`), which is empty for other machines' processors.
    """
    known = table().get(cpu) or MachineFacts(processor=cpu or "generic")
    return replace(known, **system)
