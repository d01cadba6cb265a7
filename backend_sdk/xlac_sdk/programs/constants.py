"""The storage of an artefact's weights, and the weights file.

The file begins with 64 bytes (magic, its length, a hash of the rest; little-endian) so that a
program can verify that it was given the file it was built with. The constants follow in the order
of the program, each at a multiple of 64 bytes.
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
_WORDS = 1 << 16  # bytes hashed at a time
STEP, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


class WeightsOrigin(Enum):
    """Where the weights come from."""

    EMBED = "embed"  # inside the code, as constants
    INCBIN = "incbin"  # inside the code, by the assembler from the file
    FILE = "file"  # inside the code, included from the file by the assembler
    MMAP = "mmap"  # passed by the caller, who read the file: NAME_init hashes all of it

    @property
    def inside(self) -> bool:
        """Whether they are part of the code."""
        return self in (WeightsOrigin.EMBED, WeightsOrigin.INCBIN)


def places(program: Program) -> dict[Slot, int]:
    """The offset in the file of each constant."""
    offsets, end = {}, HEADER
    for slot in program.slots:
        if slot.role is Role.CONSTANT:
            offsets[slot] = end
            end += -(-slot.nbytes // ALIGN) * ALIGN
    return offsets


def file_bytes(program: Program) -> int:
    """The length of the file; just its header if there are no weights."""
    return max(
        (start + -(-s.nbytes // ALIGN) * ALIGN for s, start in places(program).items()),
        default=HEADER,
    )


def weights_file(program: Program) -> Iterator[bytes]:
    """The file in chunks, of which the first is its header."""
    yield struct.pack("<8sQQ", MAGIC, file_bytes(program), weights_hash(program)).ljust(
        HEADER, b"\0"
    )
    yield from _blocks(program)


def weights_hash(program: Program) -> int:
    """A 64-bit hash that any change of one word of the weights changes: a sum, so that words can be
    hashed in parallel.

    Each word `w` at index `i` adds `mix(w + (i + 1) * STEP)`, where mix is a bijection.
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
