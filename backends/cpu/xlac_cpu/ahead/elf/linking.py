"""Links objects to a shared library or an executable: selects sections, lays them out, and applies
relocations.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xlac_cpu.ahead.elf.image import (
    DYNAMIC,
    DYNAMIC_SYMBOLS,
    HASH,
    NO_BITS,
    PROGBITS,
    RELOCATIONS,
    STRINGS,
    Bytes,
    FileSection,
    Image,
)
from xlac_cpu.ahead.elf.objects import ALLOC, EXECUTE, WRITE, ElfSymbol, Object, ObjectSection
from xlac_cpu.ahead.elf.relocations import value_of
from xlac_cpu.ahead.elf.selection import Selection

ORDER = (
    ".dynsym",
    ".hash",
    ".dynstr",
    ".rela.dyn",
    ".rodata",
    ".text",
    ".plt",
    ".dynamic",
    ".got",
    ".data",
    ".bss",
)


def shared(
    objects: Sequence[bytes], name: str, exports: Sequence[str] | None = None, *, open: bool = False
) -> Iterator[Bytes]:
    """The contents of a shared library with the soname `name` that exports `exports`, or every
    global symbol.

    `open`: undefined symbols are resolved by the loading process. Raises LinkError, before the
    first piece.
    """
    return Link([Object(image) for image in objects], exports, name=name, open=open).pieces()


def program(objects: Sequence[bytes], start: str) -> Iterator[Bytes]:
    """The contents of a static executable that starts at `start`. Raises LinkError, before the
    first piece.
    """
    return Link([Object(image) for image in objects], (start,), start=start).pieces()


@dataclass(frozen=True)
class Link(Selection):
    """The link of one file."""

    def pieces(self) -> Iterator[Bytes]:
        """The file's contents in order."""
        parts = {part.name: part for part in self.parts}
        self.image.place()
        for name, sections in self.places.items():
            for section, at in sections:
                section.address = parts[name].address + at
        for name in self.places:
            if parts[name].kind != NO_BITS:
                parts[name].data = [*self._filled(name)]
        for name, data in self._tables(parts).items():
            parts[name].data = [data]
        return self.image.pieces(self._address(self.definitions[self.start]) if self.start else 0)

    @cached_property
    def parts(self) -> tuple[FileSection, ...]:
        """The file's sections, in order, each with its size."""
        file_sections = [
            FileSection(
                name,
                NO_BITS if name == ".bss" else PROGBITS,
                sections[0][0].flags & (ALLOC | WRITE | EXECUTE),
                sections[-1][1] + sections[-1][0].size,
                max(section.alignment for section, _ in sections),
            )
            for name, sections in self.places.items()
        ]
        if self.table:
            file_sections.append(
                FileSection(".got", PROGBITS, ALLOC | WRITE, 8 * len(self.table), 8, entry=8)
            )
        if self.outside:
            size = self.processor.stub_bytes
            file_sections.append(
                FileSection(
                    ".plt", PROGBITS, ALLOC | EXECUTE, size * len(self.outside), size, entry=size
                )
            )
        if not self.start:
            file_sections += self._dynamic_parts()
        return tuple(sorted(file_sections, key=lambda part: ORDER.index(part.name)))

    def _dynamic_parts(self) -> list[FileSection]:
        symbols, corrections = (
            1 + len(self.seen) + len(self.outside),
            len(self.pointers) + len(self.table),
        )
        parts = [
            FileSection(
                ".dynsym", DYNAMIC_SYMBOLS, ALLOC, 24 * symbols, 8, link=".dynstr", entry=24
            ),
            FileSection(".hash", HASH, ALLOC, 4 * (3 + symbols), 4, link=".dynsym", entry=4),
            FileSection(".dynstr", STRINGS, ALLOC, len(self.strings), 1),
            FileSection(
                ".dynamic",
                DYNAMIC,
                ALLOC | WRITE,
                16 * (8 + 3 * bool(corrections)),
                8,
                link=".dynstr",
                entry=16,
            ),
        ]
        return parts + [
            FileSection(
                ".rela.dyn", RELOCATIONS, ALLOC, 24 * corrections, 8, link=".dynsym", entry=24
            )
        ] * bool(corrections)

    @cached_property
    def strings(self) -> bytes:
        """The dynamic string table, with null-terminated names."""
        names = [self.name, *(symbol.name for symbol in (*self.seen, *self.outside))]
        return b"\0" + b"".join(name.encode() + b"\0" for name in names)

    @cached_property
    def image(self) -> Image:
        """The file's layout, which assigns addresses."""
        return Image(self.parts, self.machine, not self.start, self.processor.page)

    # ---- contents, after addresses are assigned -------------------------------------------------

    def _address(self, symbol: ElfSymbol) -> int:
        assert symbol.section is not None
        return symbol.section.address + symbol.value

    def _entry(self, symbol: ElfSymbol) -> int:
        got = next(part for part in self.parts if part.name == ".got")
        return got.address + 8 * self.table.index(symbol)

    def _stub(self, symbol: ElfSymbol) -> int:
        plt = next(part for part in self.parts if part.name == ".plt")
        return plt.address + self.processor.stub_bytes * self.outside.index(symbol)

    def _filled(self, name: str) -> Iterator[Bytes]:
        end = 0
        for section, at in self.places[name]:
            yield bytes(at - end)
            yield self._relocated(section) if section.relocations else section.data
            end = at + section.size

    def _relocated(self, section: ObjectSection) -> bytearray:
        data = bytearray(section.data)
        for relocation in section.relocations:
            symbol, kind = self._resolved(relocation.symbol), self.processor.kind(relocation.kind)
            if kind.through_table:
                target = self._entry(symbol)
            else:
                target = self._address(symbol) if symbol.defined else self._stub(symbol)
            kind.write(
                data,
                relocation.offset,
                value_of(kind, target, relocation.addend, section.address + relocation.offset),
            )
        return data

    def _tables(self, parts: dict[str, FileSection]) -> dict[str, bytes]:
        """The generated sections, by name."""
        tables = {}
        if self.table:
            known = (self._address(symbol) if symbol.defined else 0 for symbol in self.table)
            tables[".got"] = struct.pack(f"<{len(self.table)}Q", *known)
        if self.outside:
            stubs = [
                self.processor.stub(self._stub(symbol), self._entry(symbol))
                for symbol in self.outside
            ]
            tables[".plt"] = b"".join(stubs)
        if self.start:
            return tables
        numbers = {part.name: number for number, part in enumerate(self.parts, 1)}
        homes = {
            id(section): name for name, sections in self.places.items() for section, _ in sections
        }
        symbols, at = [bytes(24)], 1 + len(self.name.encode()) + 1
        for symbol in (*self.seen, *self.outside):
            home = numbers[homes[id(symbol.section)]] if symbol.defined else 0
            address = self._address(symbol) if symbol.defined else 0
            symbols.append(
                struct.pack("<IBBHQQ", at, 16 | 2 * symbol.function, 0, home, address, symbol.size)
            )
            at += len(symbol.name.encode()) + 1
        count = len(symbols)
        tables[".dynsym"], tables[".dynstr"] = b"".join(symbols), self.strings
        # one bucket, as there are few names
        chain = (0, *(number + 1 if number + 1 < count else 0 for number in range(1, count)))
        tables[".hash"] = struct.pack(f"<{3 + count}I", 1, count, int(count > 1), *chain)
        corrections = [
            (
                section.address + r.offset,
                self.processor.relative,
                self._address(self._resolved(r.symbol)) + r.addend,
            )
            for section, r in self.pointers
        ]
        first = 1 + len(self.seen)
        for symbol in self.table:
            if symbol.defined:
                corrections.append(
                    (self._entry(symbol), self.processor.relative, self._address(symbol))
                )
            else:
                number = first + self.outside.index(symbol)
                corrections.append((self._entry(symbol), number << 32 | self.processor.by_name, 0))
        if corrections:
            tables[".rela.dyn"] = b"".join(struct.pack("<QQq", *row) for row in corrections)
        tables[".dynamic"] = self._dynamic(parts, len(corrections))
        return tables

    def _dynamic(self, parts: dict[str, FileSection], corrections: int) -> bytes:
        rows = [
            (14, 1),
            (4, parts[".hash"].address),
            (5, parts[".dynstr"].address),
            (6, parts[".dynsym"].address),
        ]
        # string and symbol table sizes; BIND_NOW
        rows += [(10, len(self.strings)), (11, 24), (30, 8)]
        if corrections:
            rows += [(7, parts[".rela.dyn"].address), (8, 24 * corrections), (9, 24)]
        return b"".join(struct.pack("<QQ", *row) for row in (*rows, (0, 0)))
