"""The table of processors that is shipped, `processors.json`: facts by the names that LLVM has for
processors, each entry with its source. A name that it lacks, such as x86-64-v3, is of no one
processor, and has the defaults of `MachineFacts`.
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
def table() -> Mapping[str, MachineFacts]:
    """The shipped facts by LLVM's name; names of processors alike share an entry. Raises ValueError
    for a fact that is out of bounds.
    """
    facts: dict[str, MachineFacts] = {}
    for name, entry in json.loads(TABLE.read_text(encoding="utf-8")).items():
        for each in (name, *entry.get("also", ())):
            facts[each] = MachineFacts.from_json({"processor": each, **entry["facts"]})
    return facts


def shipped(cpu: str, system: Mapping[str, Any]) -> MachineFacts:
    """The facts of a processor: the table's, or defaults; what its `system` tells replaces those,
    where the processor is the one at hand.
    """
    known = table().get(cpu) or MachineFacts(processor=cpu or "generic")
    return replace(known, **system)
