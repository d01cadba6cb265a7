"""Checks a program's steps: their arguments, and that live temporaries never share bytes.

Liveness is recomputed from the steps, independently of the planner. Every step is a point in time;
a temporary is live from its first to its last use, and through a whole loop if a value in it
outlives one iteration: it was used before the loop, an iteration reads it first, or each iteration
writes a piece of it. If sizes choose between steps, the program is walked once for each case, at
sizes of that case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_sdk.programs.entries import check as check_entries
from xlac_sdk.programs.entries import parts
from xlac_sdk.programs.program import Argument, Case, Program, Role, Slot
from xlac_sdk.programs.slot_bytes import byte_range
from xlac_sdk.programs.step_checks import StepChecks
from xlac_sdk.source import VerifyError


def check(program: Program) -> None:
    """Raises VerifyError for the first error in slots, arguments or lifetimes."""
    symbols = set()
    for slot in program.slots:
        if not (slot.symbol.isascii() and slot.symbol.isidentifier()):
            raise VerifyError(f"slot symbol '{slot.symbol}' is not an identifier")
        if slot.symbol in symbols:
            raise VerifyError(f"two slots are called '{slot.symbol}'")
        symbols.add(slot.symbol)
        _placed(program, slot)
    known = set(program.slots)
    for case in program.cases:
        _possible(program, case)
    for part in (program, *parts(program)):
        for slot in (*part.inputs, *part.outputs):
            if slot not in known:
                raise VerifyError(f"{slot.label} is not among the program's slots")
        for steps in _walks(part):
            steps.run()
    check_entries(program)


def largest_live(program: Program) -> tuple[Slot, ...]:
    """The temporaries that are live at the step of peak memory, at the maximal sizes."""
    walks = (steps for part in (program, *parts(program)) for steps in _walks(part))
    return max(map(_largest, walks), key=lambda slots: sum(slot.nbytes for slot in slots))


class StepNames(dict[int, str]):
    """The name of what runs at each step that `lives` counts."""


def lives(program: Program, names: StepNames | None = None) -> dict[Slot, tuple[int, int]]:
    """The first and the last step that uses each slot, at the maximal sizes; steps are numbered in
    the order in which `check` walks them, from 1, and `names` is filled with the names of kernels.
    """
    greatest = {s.name: s.max for s in program.sizes}
    steps = _NamedSteps(program, greatest)
    steps.run()
    if names is not None:
        names.update(steps.names)
    return {slot: (life.first, life.last) for slot, life in steps.lives.items()}


class _NamedSteps(StepChecks):
    """A walk that notes what uses memory at each step."""

    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        super().__init__(program, sizes)
        self.names: dict[int, str] = {}

    def touch(
        self,
        argument: Argument,
        count: int,
        reads: bool,
        writes: bool,
        who: str,
        foreign: bool = False,
    ) -> None:
        """Notes who uses the argument, beside what every walk does."""
        self.names.setdefault(self.now, who.removeprefix("kernel "))
        super().touch(argument, count, reads, writes, who, foreign)


def _largest(steps: StepChecks) -> tuple[Slot, ...]:
    steps.run()
    lives = {
        slot: life
        for slot, life in steps.lives.items()
        if slot.role is Role.TEMPORARY and slot.nbytes
    }
    changes: dict[int, int] = {}
    for slot, life in lives.items():
        changes[life.first] = changes.get(life.first, 0) + slot.nbytes
        changes[life.last + 1] = changes.get(life.last + 1, 0) - slot.nbytes
    alive = peak = moment = 0
    for step in sorted(changes):
        alive += changes[step]
        if alive > peak:
            peak, moment = alive, step
    return tuple(slot for slot, life in lives.items() if life.first <= moment <= life.last)


def _walks(program: Program) -> Iterator[StepChecks]:
    """One walk with all sizes at their minimum and one at their maximum, so that bounds over sizes
    are checked at both.

    This applies to steps for any sizes; each case is walked at the sizes that it names.
    """
    least, greatest = {s.name: s.min for s in program.sizes}, {s.name: s.max for s in program.sizes}
    for case in (None, *program.cases):
        named = {symbol.name: value for symbol, value in case.sizes} if case else {}
        for sizes in (least, greatest) if program.sizes else ({},):
            yield StepChecks(program, {**sizes, **named}, case)


def _possible(program: Program, case: Case) -> None:
    """Checks that some call matches the case, and another does not."""
    if not case.sizes:
        raise VerifyError("a case must name a size")
    for symbol, value in case.sizes:
        if symbol not in program.sizes:
            raise VerifyError(f"a case is for '{symbol.name}', which is not a size of the program")
        if not symbol.min <= value <= symbol.max or value % symbol.multiple_of:
            raise VerifyError(f"a case is for {symbol.name}={value}, which no call has")


def _placed(program: Program, slot: Slot) -> None:
    if slot.role in (Role.TEMPORARY, Role.STATE):
        block = program.arena_bytes if slot.role is Role.TEMPORARY else program.state_bytes
        if slot.offset < 0 or slot.offset + slot.nbytes > block:
            raise VerifyError(f"{slot.label} takes {byte_range(slot)} of a block of {block}")
        if slot.nbytes and slot.offset % slot.align:
            raise VerifyError(f"{slot.label} at byte {slot.offset} is not aligned to {slot.align}")
    if slot.role is Role.CONSTANT and slot.symbol not in program.constants:
        raise VerifyError(f"constant {slot.label} has no data")
