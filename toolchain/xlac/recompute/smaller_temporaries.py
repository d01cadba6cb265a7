"""Programs whose kernels take less temporary memory, and more time; tried where recomputing groups
does not fit a program into a memory limit.

Products are then followed by an update in their own kernel instead of one that reads them again,
and operands are packed panel by panel, or read where they are. No sum changes its order, so results
are equal to the bit. With `precision: fast` what is between a norm's reductions is also computed by
each of its readers, where sums may be in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from xlac.memory.limit import MemoryLimitError
from xlac_sdk.programs.program import Program

PART = 16  # what the limit leaves for the arena, over the largest array that is made for speed

Made = TypeVar("Made")


def with_smaller_temporaries(lowered: Callable[[int], Made]) -> tuple[Made, int]:
    """`lowered(0)`, and 0; or, where that exceeds the memory limit, `lowered(nbytes)` and that
    number of bytes, the target's `temporary_bytes`. Raises LimitError, for the program that needs
    less, where neither fits.
    """
    try:
        return lowered(0), 0
    except MemoryLimitError as error:
        usual = error
    if usual.room <= 0:
        raise usual
    nbytes = max(1, usual.room // PART)
    try:
        return lowered(nbytes), nbytes
    except MemoryLimitError as error:
        raise min(usual, error, key=lambda one: one.nbytes) from None


def noted(program: Program, nbytes: int) -> Program:
    """The program with the limit on temporaries, if any, in its fact `recomputed`."""
    if not nbytes:
        return program
    recomputed = program.facts.get("recomputed", {"factor": 1.0, "nodes": {}})
    facts = {**program.facts, "recomputed": {**recomputed, "temporaries": nbytes}}
    return replace(program, facts=facts)
