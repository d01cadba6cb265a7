"""The log of times of interpreted programs."""

from __future__ import annotations

import time

from xlac_sdk.dtypes import Array
from xlac_sdk.programs.steps import Stamp


def stamped(step: Stamp, held: Array) -> None:
    """Appends the time to a log, given all of its words."""
    count, room = (int(held[0]) if step.code else 0), len(held)
    if step.parts and not step.code:
        held[room - step.parts] = 0
    if 3 + 2 * count <= room - step.parts:
        held[1 + 2 * count : 3 + 2 * count] = step.code, time.perf_counter_ns()
        held[0] = count + 1
