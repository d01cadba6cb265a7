"""The facts of this machine that `xlac doctor --measure` (or XLAC_MEASURE=1) wrote to the cache's
folder: one small file, read by every compilation for this machine and replaced by the next
measurement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from xlac.settings import settings
from xlac.support.digest import digest
from xlac_sdk.machine.processor_info import processor_info
from xlac_sdk.machine.system_facts import system_facts
from xlac_sdk.machine_facts import LIMITS, MEASURED

FILE = "measured-facts.json"

Facts = tuple[tuple[str, Any], ...]
"""Facts of `MachineFacts` by name, in order."""


@cache
def machine() -> str:
    """Identifies this processor: its features, which decide the code that is compiled, and its
    cache sizes, which decide blocking.
    """
    import sys

    info = processor_info()
    facts = [info[name] for name in ("model name", "flags", "Features", "CPU part") if name in info]
    if not info:
        import platform

        facts = [platform.machine(), platform.processor()]
    facts_of_system = sorted(
        system_facts().items()
    )  # hypervisors report different sizes for one model
    return digest(sys.platform, str(sys.maxsize), repr(facts_of_system), *facts)


def place() -> str | None:
    """The path of the file; None without a cache."""
    folder = settings().cache
    return None if folder is None else os.path.join(folder, FILE)


def kept() -> Facts:
    """The measured facts of this machine; empty where there are none."""
    return found() or ()


def found() -> Facts | None:
    """The measured facts of this machine, which may be none; None where it was not measured: there
    is no file, it is of another machine, or it is damaged.
    """
    file = place()
    try:
        with open(file or "", encoding="utf-8") as opened:
            record = json.load(opened)
        if record["machine"] != machine():
            return None
        return ordered(record["facts"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def ordered(facts: Mapping[str, Any]) -> Facts:
    """Measured facts in order of name. Raises ValueError for an unknown one, or one out of
    bounds.
    """
    for name, value in facts.items():
        if name not in MEASURED or not LIMITS[name].holds(value):
            raise ValueError(name)
    return tuple(sorted(facts.items()))


def keep(facts: Mapping[str, Any], how: Mapping[str, Any]) -> str:
    """Writes measured facts, with `how` saying how; returns the file's path.
    Raises OSError, and ValueError without a cache.
    """
    file = place()
    if file is None:
        raise ValueError("XLAC_CACHE=off")
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    record = {"machine": machine(), "facts": dict(ordered(facts)), "measured": dict(how)}
    room = f"{file}.{os.getpid()}"
    with open(room, "w", encoding="utf-8") as opened:
        opened.write(json.dumps(record, indent=1, sort_keys=True) + "\n")
    os.replace(room, file)
    return file
