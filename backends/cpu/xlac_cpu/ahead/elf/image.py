"""Lays out an ELF file: segments by access rights, file offsets and addresses of sections, and
headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xlac_cpu.ahead.elf.objects import EXECUTE, WRITE

READABLE, DYNAMIC_SEGMENT, STACK, LOAD = 4, 2, 0x6474E551, 1
SHARED, PROGRAM = 3, 2
PROGBITS, STRINGS, RELOCATIONS, HASH, DYNAMIC, NO_BITS, DYNAMIC_SYMBOLS = 1, 3, 4, 5, 6, 8, 11
_HEADER, _SEGMENT = 64, 56
Bytes = bytes | bytearray | memoryview


@dataclass(eq=False, slots=True)
class FileSection:
    """A section of the output file. Its contents, in consecutive pieces, are set once addresses are
    assigned.
    """

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    link: str = ""
    entry: int = 0
    data: list[Bytes] = field(default_factory=list)
    address: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Image:
    """The sections of a file in order: read-only, executable, writable, and zero-initialized ones
    last.
    """

    parts: Sequence[FileSection]
    machine: int
    shared: bool
    page: int

    def place(self) -> None:
        """Assigns offsets and addresses: a segment starts in the file directly after the previous
        one, and in memory on a new page.
        """
        offset = _HEADER + _SEGMENT * (len(self._segments()) + 1 + self.shared)
        base = 0 if self.shared else 0x400000
        for segment in self._segments():
            zeros = 0  # bytes of the segment without file contents (.bss)
            for part in segment:
                padding = -(offset + zeros) % part.alignment
                if part.kind == NO_BITS:
                    part.offset, part.address = offset, base + offset + zeros + padding
                    zeros += padding + part.size
                else:
                    part.offset, part.address = offset + padding, base + offset + padding
                    offset += padding + part.size
            base += self.page

    def pieces(self, start: int) -> Iterator[Bytes]:
        """The file, piece by piece; `start` is the entry address."""
        headers = self._segment_headers()
        names, table = self._section_headers()
        at = self._end + len(names)
        padding = -at % 8
        ident, kind, sections = (
            b"\x7fELF\x02\x01\x01" + bytes(9),
            SHARED if self.shared else PROGRAM,
            len(self.parts) + 2,
        )
        yield struct.pack(
            "<16sHHIQQQI", ident, kind, self.machine, 1, start, _HEADER, at + padding, 0
        )
        yield struct.pack("<6H", _HEADER, _SEGMENT, len(headers), 64, sections, sections - 1)
        yield from headers
        written = _HEADER + _SEGMENT * len(headers)
        for part in self.parts:
            if part.kind != NO_BITS:
                yield bytes(part.offset - written)
                yield from part.data
                written = part.offset + part.size
        yield from (names, bytes(padding), table)

    @property
    def _end(self) -> int:
        """The file offset of the end of the last section."""
        return max(part.offset + part.size for part in self.parts if part.kind != NO_BITS)

    def _segment_headers(self) -> list[bytes]:
        headers = []
        for number, segment in enumerate(self._segments()):
            first = segment[0]
            back = 0 if number else first.offset  # the first segment contains the headers too
            at, address = first.offset - back, first.address - back
            stored = (
                max(
                    (part.offset + part.size for part in segment if part.kind != NO_BITS),
                    default=at,
                )
                - at
            )
            memory = segment[-1].address + segment[-1].size - address
            rights = (
                READABLE | (2 if first.flags & WRITE else 0) | (1 if first.flags & EXECUTE else 0)
            )
            headers.append(_segment(LOAD, rights, at, address, stored, memory, self.page))
        for part in self.parts:
            if part.kind == DYNAMIC:
                headers.append(
                    _segment(
                        DYNAMIC_SEGMENT,
                        READABLE | 2,
                        part.offset,
                        part.address,
                        part.size,
                        part.size,
                        8,
                    )
                )
        return [*headers, _segment(STACK, READABLE | 2, 0, 0, 0, 0, 16)]

    def _segments(self) -> list[list[FileSection]]:
        segments: dict[int, list[FileSection]] = {}
        for part in self.parts:
            segments.setdefault(part.flags & (WRITE | EXECUTE), []).append(part)
        return [*segments.values()]

    def _section_headers(self) -> tuple[bytes, bytes]:
        """The section names, and the section table that tools read; loaders need neither."""
        names = b"\0" + b"".join(part.name.encode() + b"\0" for part in self.parts) + b".shstrtab\0"
        order = [part.name for part in self.parts]
        rows = [bytes(64)]
        for part in self.parts:
            link = order.index(part.link) + 1 if part.link else 0
            symbols = part.kind == DYNAMIC_SYMBOLS  # the index of the first global symbol is 1
            where = part.address, part.offset, part.size
            name = names.index(b"\0" + part.name.encode() + b"\0") + 1
            rows.append(
                struct.pack(
                    "<IIQQQQIIQQ",
                    name,
                    part.kind,
                    part.flags,
                    *where,
                    link,
                    symbols,
                    part.alignment,
                    part.entry,
                )
            )
        name = names.index(b"\0.shstrtab\0") + 1
        rows.append(
            struct.pack("<IIQQQQIIQQ", name, STRINGS, 0, 0, self._end, len(names), 0, 0, 1, 0)
        )
        return names, b"".join(rows)


def _segment(
    kind: int, rights: int, at: int, address: int, stored: int, memory: int, alignment: int
) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, rights, at, address, address, stored, memory, alignment)
