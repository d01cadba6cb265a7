"""The constants of all variants in one block, with equal ones stored once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.programs.constants import places, weights_file
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Program, Role, Slot


@dataclass(frozen=True, slots=True, eq=False)
class ConstantBlock:
    """The block of constants, and the offset of each slot of each variant from the start of the
    file.
    """

    # the first variant, with the constants of all and the largest memory requirements
    program: Program
    places: Mapping[Slot, int]

    @property
    def data(self) -> bytes:
        """The file without its header; empty if there are no constants."""
        return b"".join(list(weights_file(self.program))[1:])


def block(programs: Sequence[Program]) -> ConstantBlock:
    """One block for all variants, whose slots with equal data share a place."""
    kept: dict[bytes, Slot] = {}
    shared: dict[Slot, Slot] = {}
    constants = {}
    for number, program in enumerate(programs):
        for slot in program.slots:
            if slot.role is not Role.CONSTANT:
                continue
            data = program.constants[slot.symbol]
            # those of one program are distinct already
            key = fingerprint(data) if len(programs) > 1 else b""
            if not key or key not in kept:
                symbol = f"v{number}_{slot.symbol}" if number else slot.symbol
                one = replace(slot, symbol=symbol)
                constants[symbol] = data
                shared[slot] = kept[key or symbol.encode()] = one
            else:
                shared[slot] = kept[key]
    first = programs[0]
    rest = tuple(slot for slot in first.slots if slot.role is not Role.CONSTANT)
    whole = replace(
        first,
        slots=(*rest, *kept.values()),
        constants=constants,
        arena_bytes=max(p.arena_bytes for p in programs),
        state_bytes=max(p.state_bytes for p in programs),
    )
    where = places(whole)
    return ConstantBlock(whole, {slot: where[one] for slot, one in shared.items()})
