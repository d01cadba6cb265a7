"""The layout of the tables of pointers passed to a program, shared by emitter and loader."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TYPE_CHECKING

from xlac_sdk.programs.program import Program, Role, Slot

if TYPE_CHECKING:
    from xlac_sdk.kernel_ir.kernel import Kernel

ALIGNMENT = 64  # alignment of the arena, of each state and of constants that were copied


Places = Mapping[Slot, tuple[str, int]]


def fixed(program: Program) -> tuple[Slot, ...]:
    """Slots of constants, whose addresses are fixed; `states` follow them in the table."""
    return tuple(slot for slot in program.slots if slot.role is Role.CONSTANT)


def states(program: Program) -> tuple[Slot, ...]:
    """Slots kept between calls: each has its own address, which may be the caller's."""
    return tuple(slot for slot in program.slots if slot.role is Role.STATE)


def exchanges(program: Program) -> int:
    """The place after these of the table of functions that exchange values between ranks."""
    return len(fixed(program)) + len(states(program))


def host_calls(program: Program) -> int:
    """The place after that, where there is one, of the table of Python functions."""
    return exchanges(program) + ("mesh" in program.facts)


def places(program: Program) -> Places:
    """Each slot's base (`io`, `fixed` or `arena`) and an index into a table, or an
    offset in bytes.
    """
    places: dict[Slot, tuple[str, int]] = {}
    for i, slot in enumerate((*program.inputs, *program.outputs)):
        places.setdefault(slot, ("io", i))
    for i, slot in enumerate((*fixed(program), *states(program))):
        places[slot] = ("fixed", i)
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            places[slot] = ("arena", slot.offset)
    return places


def places_ahead(program: Program, constants: Mapping[Slot, int], arena: int) -> Places:
    """The same for code compiled ahead of time: constants are in one `block`, the caller's memory
    has the state and, from the byte `arena` on, the arena.
    """
    ahead = dict(places(program))
    for slot, at in constants.items():
        ahead[slot] = ("block", at)
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            ahead[slot] = ("arena", arena + slot.offset)
        elif slot.role is Role.STATE:
            ahead[slot] = ("arena", slot.offset)
    return ahead


def alignments(program: Program) -> dict[Kernel, tuple[int, ...]]:
    """The known alignment in bytes of each parameter over all launches.

    The caller's arrays and mapped weights are only aligned to their elements; the arena is aligned
    by xlac.
    """
    from xlac_sdk.lowering import alignment

    return alignment.alignments(program, start)


def start(slot: Slot) -> int:
    """The known alignment of a slot's address in bytes."""
    ours = slot.role in (Role.TEMPORARY, Role.STATE)
    return gcd(ALIGNMENT, slot.offset) if ours else slot.dtype.nbytes
