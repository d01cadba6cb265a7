"""Schedules that ship with the compiler: what `xlac tune` found on common processors, as data.

This folder has a file for each processor and number of threads, as `xlac tune` writes it, in JSON.
A compilation for that processor uses the entries whose groups, values and rewrites it has. They
never change results; an entry that does not fit, as facts of the processor were replaced, is left
to the compiler.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from xlac.codegen.schedules.document import Asked, read
from xlac.codegen.schedules.tuned import differences
from xlac_sdk.target import Target

NAME = re.compile(r"[\w+-][\w.+-]*")  # of a processor
FOLDER = Path(__file__).parent


def shipped(target: Target) -> Asked:
    """What is shipped for a target; nothing for other processors, other numbers of threads, or
    another precision.
    """
    found = _read(target.hardware.processor, target.threads)
    if found is None or found.tuned is None or differences(found.tuned.machine, target):
        return Asked()
    return found


@cache
def _read(processor: str, threads: int) -> Asked | None:
    file = FOLDER / f"{processor}_{threads}.json"
    if not NAME.fullmatch(processor) or not file.is_file():
        return None
    return read(json.loads(file.read_text(encoding="utf-8")))
