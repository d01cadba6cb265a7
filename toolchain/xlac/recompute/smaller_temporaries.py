"""Programs whose kernels take less temporary memory, and more time; tried where recomputing groups
does not fit a program into a memory limit.

Products are then followed by an update in their own kernel instead of one that reads them again,
and operands are packed panel by panel, or read where they are. No sum changes its order, so results
are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from xlac.memory.limit import MemoryLimitError
from xlac_sdk.programs.program import Program

# what the limit leaves for the arena, over the largest array that is still made for speed
PARTS = (4, 16)

Made = TypeVar("Made")


def with_smaller_temporaries(lowered: Callable[[int], Made]) -> tuple[Made, int]:
    """`lowered(0)`, and 0; or, where that exceeds the memory limit, the first `lowered(nbytes)`
    that does not, and that number of bytes: the target's `temporary_bytes`. Raises LimitError, for
    the program that needs least, where none fits.
    """
    try:
        return lowered(0), 0
    except MemoryLimitError as error:
        least, room = error, error.room
    for part in PARTS if room > 0 else ():
        nbytes = max(1, room // part)
        try:
            return lowered(nbytes), nbytes
        except MemoryLimitError as error:
            least = min(least, error, key=lambda one: one.nbytes)
    raise least


def noted(program: Program, nbytes: int) -> Program:
    """The program with the limit on temporaries, if any, in its fact `recomputed`."""
    if not nbytes:
        return program
    recomputed = program.facts.get("recomputed", {"factor": 1.0, "nodes": {}})
    facts = {**program.facts, "recomputed": {**recomputed, "temporaries": nbytes}}
    return replace(program, facts=facts)
