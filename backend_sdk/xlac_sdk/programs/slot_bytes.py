"""When a slot is live, and which bytes of its block it takes."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.programs.program import Slot


@dataclass(slots=True)
class Life:
    """The first and the last step that uses a slot."""

    first: int
    last: int


def first_byte(slot: Slot) -> int:
    """The offset of a slot in its block, the sort key of slots."""
    return slot.offset


def byte_range(slot: Slot) -> str:
    """The byte range of a slot, for messages."""
    return f"bytes {slot.offset} to {slot.offset + slot.nbytes}"
