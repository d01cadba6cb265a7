"""Programs whose kernels take less temporary memory, and more time; tried where recomputing groups
does not fit a program into a memory limit.

Products are then followed by an update in their own kernel instead of one that reads them again,
and operands are packed panel by panel, or read where they are. No sum changes its order, so results
are equal to the bit.

Where that takes much longer, or does not fit either, what is between a norm's reductions is also
computed by each of its readers. How a sum is cut into pieces depends on what its kernel computes,
so sums are then in another order, which the program's facts say. With `precision: fast` it is so
from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.memory.limit import MemoryLimitError
from xlac_sdk.programs.program import Program

# what the limit leaves for the arena, over the largest array that is made for speed; and whether
# sums may be in another order. In turn, until one fits and takes little more time
TRIED = ((16, False), (10, True), (16, True))
ENOUGH = 1.2  # times the time without a limit, by estimate: if more, sums may be reordered


class HasProgram(Protocol):
    """What was lowered, with its program."""

    @property
    def program(self) -> Program:
        """The program, whose facts say what it recomputes."""
        ...


Made = TypeVar("Made", bound=HasProgram)


@dataclass(frozen=True, slots=True)
class Temporaries:
    """What a target is told: the most bytes of an array that is made for speed (0: any number), and
    whether sums may be in another order.
    """

    nbytes: int = 0
    reorders_sums: bool = False

    def given_to(self, lowering: LoweringCache) -> LoweringCache:
        """The lowering for a target that is told this."""
        if not self.nbytes:
            return lowering
        return lowering.with_temporaries(self.nbytes, self.reorders_sums)


def with_smaller_temporaries(
    lowered: Callable[[Temporaries], Made], fast: bool
) -> tuple[Made, Temporaries]:
    """What is lowered with arrays of any size; or, where that exceeds the memory limit, with small
    ones; and if that exceeds it too, or takes more than ENOUGH times as long, with sums in another
    order, if that is estimated to take less time. With `fast`, sums are in any order already.
    Raises LimitError, for the program that needs least, where none fits.
    """
    try:
        return lowered(Temporaries()), Temporaries()
    except MemoryLimitError as error:
        errors = [error]
    if errors[0].room <= 0:
        raise errors[0]
    fitting: list[tuple[Made, Temporaries]] = []
    for part, reorders in TRIED[:1] if fast else TRIED:
        small = Temporaries(max(1, errors[0].room // part), reorders)
        try:
            made = lowered(small)
        except MemoryLimitError as error:
            errors.append(error)
            continue
        fitting.append((made, small))
        if _factor(made.program) <= ENOUGH:
            break
    if not fitting:
        raise min(errors, key=lambda one: one.nbytes) from None
    return min(fitting, key=lambda one: _factor(one[0].program))


def _factor(program: Program) -> float:
    """By which a call takes longer than without a memory limit, by the cost estimate."""
    factor: float = program.facts.get("recomputed", {"factor": 1.0})["factor"]
    return factor


def noted(program: Program, small: Temporaries) -> Program:
    """The program with the limit on temporaries, if any, in its fact `recomputed`."""
    if not small.nbytes:
        return program
    recomputed = program.facts.get("recomputed", {"factor": 1.0, "nodes": {}})
    told = {"temporaries": small.nbytes}
    if small.reorders_sums:
        told["sums_reordered"] = True
    return replace(program, facts={**program.facts, "recomputed": {**recomputed, **told}})
