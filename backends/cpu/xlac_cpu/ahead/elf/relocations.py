"""The relocations of each processor, as defined by its ELF supplement (System V ABI for x86-64; ELF
for the Arm 64-bit Architecture).

S is the symbol's address, A the addend, P the place, G the address of the symbol's entry in the
global offset table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xlac_cpu.ahead.elf.objects import AARCH64, X86_64, LinkError


@dataclass(frozen=True, slots=True)
class RelocationKind:
    """One relocation type: the formula of its value (`S+A`, `S+A-P`, …) and its encoding."""

    value: str
    write: Callable[[bytearray, int, int], None]
    call: bool = False  # a branch, which may go through a stub

    @property
    def through_table(self) -> bool:
        """Whether code loads the address from the global offset table."""
        return self.value.startswith("G")

    @property
    def pointer(self) -> bool:
        """Whether it is a whole address in data, which the loader of a shared library must
        relocate.
        """
        return self.value == "S+A"


@dataclass(frozen=True, slots=True)
class Processor:
    """The relocation types by number, those for the dynamic loader, and the stub by which a branch
    reaches another library.
    """

    kinds: Mapping[int, RelocationKind]
    relative: int
    by_name: int
    page: int  # the largest page size of its systems
    stub: Callable[[int, int], bytes]  # stub code, from its own address and that of the table entry
    stub_bytes: int

    def kind(self, number: int) -> RelocationKind:
        """The relocation type of a number; raises LinkError if it is unknown."""
        if number not in self.kinds:
            raise LinkError(f"relocation type {number} is not supported")
        return self.kinds[number]


def _number(format: str) -> Callable[[bytearray, int, int], None]:
    def write(data: bytearray, at: int, value: int) -> None:
        try:
            struct.pack_into(format, data, at, value)
        except struct.error:
            raise LinkError("a relocation is out of range") from None

    return write


def _instruction(
    low: int, width: int, shift: int = 0, signed: bool = False
) -> Callable[[bytearray, int, int], None]:
    """A field of `width` bits from bit `low` on, holding a value shifted right; unsigned ones take
    the value's low 12 bits (`LO12`).
    """

    def write(data: bytearray, at: int, value: int) -> None:
        field = (value if signed else value & 0xFFF) >> shift
        if signed and not -(1 << width - 1) <= field < 1 << width - 1:
            raise LinkError("a relocation is out of range")
        mask = (1 << width) - 1
        (word,) = struct.unpack_from("<I", data, at)
        struct.pack_into("<I", data, at, word & ~(mask << low) | (field & mask) << low)

    return write


def _pages(shift: int) -> Callable[[bytearray, int, int], None]:
    """The split immediate of `adr` and, in pages, of `adrp`."""

    def write(data: bytearray, at: int, value: int) -> None:
        field = value >> shift
        if not -(1 << 20) <= field < 1 << 20:
            raise LinkError("a relocation is out of range")
        (word,) = struct.unpack_from("<I", data, at)
        word = word & ~(3 << 29 | 0x7FFFF << 5) | (field & 3) << 29 | (field >> 2 & 0x7FFFF) << 5
        struct.pack_into("<I", data, at, word)

    return write


_I32, _U32, _U64 = _number("<i"), _number("<I"), _number("<Q")
_PC32, _GOT32 = RelocationKind("S+A-P", _I32), RelocationKind("G+A-P", _I32)

X86_64_KINDS = {
    1: RelocationKind("S+A", _U64),
    2: _PC32,
    4: RelocationKind("S+A-P", _I32, call=True),
    9: _GOT32,
    10: RelocationKind("S+A", _U32),
    11: RelocationKind("S+A", _I32),
    24: RelocationKind("S+A-P", _number("<q")),
    41: _GOT32,
    42: _GOT32,
}

AARCH64_KINDS = {
    257: RelocationKind("S+A", _U64),
    258: RelocationKind("S+A", _U32),
    260: RelocationKind("S+A-P", _number("<q")),
    261: RelocationKind("S+A-P", _I32),
    274: RelocationKind("S+A-P", _pages(0)),
    275: RelocationKind("page(S+A)-page(P)", _pages(12)),
    276: RelocationKind("page(S+A)-page(P)", _pages(12)),
    277: RelocationKind("low(S+A)", _instruction(10, 12)),
    278: RelocationKind("low(S+A)", _instruction(10, 12)),
    279: RelocationKind("S+A-P", _instruction(5, 14, 2, signed=True)),
    280: RelocationKind("S+A-P", _instruction(5, 19, 2, signed=True)),
    282: RelocationKind("S+A-P", _instruction(0, 26, 2, signed=True), call=True),
    283: RelocationKind("S+A-P", _instruction(0, 26, 2, signed=True), call=True),
    284: RelocationKind("low(S+A)", _instruction(10, 12, 1)),
    285: RelocationKind("low(S+A)", _instruction(10, 12, 2)),
    286: RelocationKind("low(S+A)", _instruction(10, 12, 3)),
    299: RelocationKind("low(S+A)", _instruction(10, 12, 4)),
    311: RelocationKind("Gpage(S+A)-page(P)", _pages(12)),
    312: RelocationKind("Glow(S+A)", _instruction(10, 12, 3)),
}


def value_of(kind: RelocationKind, target: int, addend: int, place: int) -> int:
    """The value that a relocation writes; `target` is S, or G if `kind.through_table`."""
    if "page" in kind.value:
        return (target + addend & ~0xFFF) - (place & ~0xFFF)
    if kind.value.endswith("-P"):
        return target + addend - place
    return target + addend


def _x86_64_stub(at: int, entry: int) -> bytes:
    return struct.pack("<2si2x", b"\xff\x25", entry - (at + 6))  # jmp *entry(%rip)


def _aarch64_stub(at: int, entry: int) -> bytes:
    # adrp x16; ldr x17, [x16]; br x17; nop
    code = bytearray(struct.pack("<4I", 0x90000010, 0xF9400211, 0xD61F0220, 0xD503201F))
    _pages(12)(code, 0, (entry & ~0xFFF) - (at & ~0xFFF))
    _instruction(10, 12, 3)(code, 4, entry)
    return bytes(code)


PROCESSORS = {
    X86_64: Processor(
        X86_64_KINDS, relative=8, by_name=6, page=4096, stub=_x86_64_stub, stub_bytes=8
    ),
    AARCH64: Processor(
        AARCH64_KINDS, relative=1027, by_name=1025, page=65536, stub=_aarch64_stub, stub_bytes=16
    ),
}
