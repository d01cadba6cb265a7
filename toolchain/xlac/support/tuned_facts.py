"""What `xlac backend tune` found out about devices: one small file in the cache's folder, by the
device that each entry describes, for every compilation for that device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from xlac.settings import settings
from xlac.support.measured_facts import Facts
from xlac_sdk.machine_facts import LIMITS, TUNABLE

FILE = "tuned-facts.json"


def place() -> str | None:
    """The file; None without a cache."""
    folder = settings().cache
    return None if folder is None else os.path.join(folder, FILE)


def tuned_facts() -> tuple[tuple[str, Facts], ...]:
    """The facts of each device that was tuned (`Target.identity`), in order; those of entries that
    are damaged are left out.
    """
    return tuple((device, facts) for device, facts in sorted(_read().items()) if facts)


def keep(device: str, facts: Mapping[str, Any]) -> str:
    """Keeps the facts of a device for later compilations, instead of those that were kept, and
    returns the file's name; no facts forget it. Raises OSError, and ValueError where there is no
    cache to write to.
    """
    file = place()
    if file is None:
        raise ValueError("XLAC_CACHE=off")
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    known = {**_read(), device: ordered(facts)}
    record = {name: dict(given) for name, given in known.items() if given}
    room = f"{file}.{os.getpid()}"
    with open(room, "w", encoding="utf-8") as opened:
        opened.write(json.dumps(record, indent=1, sort_keys=True) + "\n")
    os.replace(room, file)
    return file


def ordered(facts: Mapping[str, Any]) -> Facts:
    """Facts in order of name. Raises ValueError for what is none, or out of bounds."""
    for name, value in facts.items():
        limit = TUNABLE.get(name) or LIMITS.get(name)
        if limit is None or not limit.holds(value):
            raise ValueError(name)
    return tuple(sorted(facts.items()))


def _read() -> dict[str, Facts]:
    try:
        with open(place() or "", encoding="utf-8") as opened:
            record = json.load(opened)
        return {str(device): ordered(facts) for device, facts in record.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
