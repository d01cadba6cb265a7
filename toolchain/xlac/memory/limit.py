"""The limit on a call's memory, and the error that lists the largest tensors when it cannot be
met.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlac_sdk.programs.lifetimes import largest_live
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, LimitError, Origin, SourceError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SHOWN = 12  # tensors that a message lists
ADDRESSES = 1 << 47  # bytes that a process can address


class MemoryLimitError(LimitError):
    """A program that takes more than a limit: `nbytes` is what it takes, `room` what the limit
    leaves for its arena.
    """

    nbytes: int
    room: int


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The most bytes that a call may take beside its arrays: the arena, state, and weights unless
    they are constants of the code. `beside` counts bytes that are added to those of the program.
    """

    nbytes: int
    weights_in_memory: bool = True
    beside: int = 0

    @staticmethod
    def of(asked: int | str | None) -> MemoryLimit | None:
        """The limit that an option gives, in bytes or as text. Raises SourceError."""
        return None if asked is None else MemoryLimit(parse(str(asked)))

    def arena(self, program: Program) -> int:
        """What is left for the arena of a program; less than nothing where the rest is too much."""
        fixed = needed(program, self.weights_in_memory) - program.arena_bytes
        return self.nbytes - fixed - self.beside

    def holds(self, program: Program) -> bool:
        """Whether a program is within the limit."""
        return program.arena_bytes <= self.arena(program)


def parse(text: str) -> int:
    """Bytes of `64K`, `1.5M` or `4096`. Raises SourceError."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?)([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        hint = "bytes, or K, M or G of them: 65536, 64K, 1.5M"
        raise SourceError(Diagnostic("XL4020", f"'{text}' is not an amount of memory", hint=hint))
    return int(float(match[1]) * UNITS[match[2].upper()])


def needed(program: Program, weights_in_memory: bool) -> int:
    """Bytes that a call takes beside its arrays: the arena, state, and weights unless they are
    constants of the code.
    """
    weights = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    return program.arena_bytes + program.state_bytes + (weights if weights_in_memory else 0)


def check_addressable(program: Program) -> None:
    """Raises LimitError for a program that exceeds the address space."""
    largest = max((s.nbytes for s in program.slots), default=0)
    total = max(program.arena_bytes + program.state_bytes, largest)
    if total >= ADDRESSES:
        raise LimitError(
            Diagnostic("XL4020", f"a call takes {total:,} bytes, more than a process can address")
        )


def check(
    program: Program, limit: int, weights_in_memory: bool, least: Origin | bool | None = False
) -> None:
    """Raises LimitError for a program above the limit, listing the tensors alive at its peak. A
    nonempty `least` says that recomputation found nothing smaller, and which operation runs at the
    peak.
    """
    total = needed(program, weights_in_memory)
    if total <= limit:
        return
    held = [(s, "at one step") for s in largest_live(program)]
    held += [(s, "state") for s in program.slots if s.role is Role.STATE and s.nbytes]
    if weights_in_memory:
        held += [(s, "weights") for s in program.slots if s.role is Role.CONSTANT and s.nbytes]
    held.sort(key=lambda one: -one[0].nbytes)
    lines = [f"  {s.nbytes:>12,} B  {_about(s)} ({why})" for s, why in held[:SHOWN]]
    rest = sum(s.nbytes for s, _ in held[SHOWN:])
    lines += [f"  {rest:>12,} B  in {len(held) - SHOWN} more"] if rest else []
    place = least if isinstance(least, Origin) else None
    where = f", while '{place.name}' is computed" if place and place.name else ""
    how = "" if least is False else " at least, whatever is computed again"
    problem = (
        f"a call takes {total:,} bytes{how}, more than the {limit:,} allowed; the most that is in "
        f"memory at once{where}:"
    )
    stored = any(s.role is Role.CONSTANT and _is_weight(s) for s, _ in held)
    narrower = "--quantize int8 for weights, " if stored else ""  # those that learn are state
    hint = f"smaller --dim values, {narrower}or a larger --max-memory"
    span = place.span if place else None
    error = MemoryLimitError(Diagnostic("XL4020", "\n".join([problem, *lines]), span, hint))
    error.nbytes, error.room = total, limit - (total - program.arena_bytes)
    raise error


def _is_weight(slot: Slot) -> bool:
    """Whether a constant is what quantizing makes smaller: no table of random keys or sizes."""
    return slot.dtype.is_float and len(slot.shape) > 1


def _about(slot: Slot) -> str:
    shape = ", ".join(map(str, slot.shape))
    return f"{slot.label} {slot.dtype}[{shape}]"
