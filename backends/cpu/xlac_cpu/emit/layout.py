"""The tables of pointers through which a program is called, derived alike by emitter and loader."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TYPE_CHECKING

from xlac_sdk.programs.program import Program, Role, Slot

if TYPE_CHECKING:
    from xlac_sdk.kernel_ir.kernel import Kernel

ALIGNMENT = 64  # of the arena, of each state and of constants that had to be copied


Places = Mapping[Slot, tuple[str, int]]


def fixed(program: Program) -> tuple[Slot, ...]:
    """Constants, whose addresses do not change; those of `states` follow them in the table."""
    return tuple(slot for slot in program.slots if slot.role is Role.CONSTANT)


def states(program: Program) -> tuple[Slot, ...]:
    """What is kept between calls: each has an address of its own, which may be the caller's."""
    return tuple(slot for slot in program.slots if slot.role is Role.STATE)


def places(program: Program) -> Places:
    """Each slot's base (`io`, `fixed` or `arena`) and what to add: an index into a table, or bytes."""
    found: dict[Slot, tuple[str, int]] = {}
    for i, slot in enumerate((*program.inputs, *program.outputs)):
        found.setdefault(slot, ("io", i))
    for i, slot in enumerate((*fixed(program), *states(program))):
        found[slot] = ("fixed", i)
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            found[slot] = ("arena", slot.offset)
    return found


def places_ahead(program: Program, constants: Mapping[Slot, int], arena: int) -> Places:
    """The same for code that is compiled ahead of time: constants are in one `block`, the caller's
    memory is the state and, from the byte `arena`, the arena."""
    found = dict(places(program))
    for slot, at in constants.items():
        found[slot] = ("block", at)
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            found[slot] = ("arena", arena + slot.offset)
        elif slot.role is Role.STATE:
            found[slot] = ("arena", slot.offset)
    return found


def alignments(program: Program) -> dict[Kernel, tuple[int, ...]]:
    """Bytes that divide the address of each parameter in every launch.

    The caller's arrays and mapped weights promise only that of one element; the arena is ours.
    """
    from xlac_sdk.emit import alignment

    return alignment.alignments(program, start)


def start(slot: Slot) -> int:
    """Bytes that divide the address of a slot."""
    ours = slot.role in (Role.TEMPORARY, Role.STATE)
    return gcd(ALIGNMENT, slot.offset) if ours else slot.dtype.nbytes
