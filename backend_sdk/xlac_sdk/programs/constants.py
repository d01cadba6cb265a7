"""Where an artefact has its weights, and the file that holds them when they are beside it.

The file begins with 64 bytes (magic, its length, a hash of the rest; little-endian) so that a
program can tell that it was given the file it was built with. After them come the constants in the
order of the program, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.programs.program import Program, Role, Slot

MAGIC = b"xlacwts\x01"
HEADER = 64
ALIGN = 64
_WORDS = 1 << 16  # hashed at a time
STEP, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


class WeightsOrigin(Enum):
    """Who brings the weights."""

    EMBED = "embed"  # inside the code, as constants
    INCBIN = "incbin"  # inside the code, by the assembler from the file
    FILE = "file"  # the caller, who read the file: NAME_init hashes all of it
    MMAP = "mmap"  # the caller, who mapped the file: NAME_init reads its header only

    @property
    def inside(self) -> bool:
        """Whether they are part of the code."""
        return self in (WeightsOrigin.EMBED, WeightsOrigin.INCBIN)


def places(program: Program) -> dict[Slot, int]:
    """The byte of the file at which each constant starts."""
    found, end = {}, HEADER
    for slot in program.slots:
        if slot.role is Role.CONSTANT:
            found[slot] = end
            end += -(-slot.nbytes // ALIGN) * ALIGN
    return found


def file_bytes(program: Program) -> int:
    """The length of the file; its header alone when there are no weights."""
    return max(
        (start + -(-s.nbytes // ALIGN) * ALIGN for s, start in places(program).items()),
        default=HEADER,
    )


def weights_file(program: Program) -> Iterator[bytes]:
    """The file in pieces, of which the first is its header."""
    yield struct.pack("<8sQQ", MAGIC, file_bytes(program), weights_hash(program)).ljust(
        HEADER, b"\0"
    )
    yield from _blocks(program)


def weights_hash(program: Program) -> int:
    """64 bits that any change of one word of the weights changes: a sum, so that words are hashed
    side by side.

    Each word `w` at place `i` adds `mix(w + (i + 1) * STEP)`, and mix is a bijection.
    """
    total, place = 0, 1
    with np.errstate(over="ignore"):
        for block in _blocks(program):
            words = np.frombuffer(block, np.uint64)
            for start in range(0, len(words), _WORDS):
                part = words[start : start + _WORDS]
                mixed = part + (
                    np.arange(place, place + len(part), dtype=np.uint64) * np.uint64(STEP)
                )
                mixed ^= mixed >> np.uint64(32)
                mixed *= np.uint64(MIX)
                mixed ^= mixed >> np.uint64(32)
                total += int(mixed.sum(dtype=np.uint64))
                place += len(part)
    return total & (1 << 64) - 1


def _blocks(program: Program) -> Iterator[bytes]:
    """The constants, each padded to a multiple of 64 bytes."""
    for slot in places(program):
        data: NDArray[np.uint8] = (
            np.ascontiguousarray(program.constants[slot.symbol]).reshape(-1).view(np.uint8)
        )
        yield data.tobytes().ljust(-(-slot.nbytes // ALIGN) * ALIGN, b"\0")
