"""Reads relocatable ELF files written by LLVM and C compilers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

X86_64, AARCH64 = 62, 183
WRITE, ALLOC, EXECUTE, THREAD_LOCAL = 1, 2, 4, 0x400
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_ABSOLUTE, _COMMON, _RESERVED = 0xFFF1, 0xFFF2, 0xFF00


class LinkError(Exception):
    """The objects need something that this linker does not support; the text says what."""


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """A symbol of an object: `section` is None if another object defines it."""

    name: str
    section: ObjectSection | None
    value: int
    is_global: bool
    weak: bool
    function: bool
    size: int

    @property
    def defined(self) -> bool:
        """Whether this object defines it."""
        return self.section is not None


@dataclass(frozen=True, slots=True)
class Relocation:
    """A location in a section that depends on the address of a symbol."""

    offset: int
    kind: int
    symbol: ElfSymbol
    addend: int


@dataclass(eq=False, slots=True)
class ObjectSection:
    """A section of an object that becomes part of the file. If `data` is empty and `size` is not,
    it is zero-initialized.
    """

    name: str
    flags: int
    size: int
    alignment: int
    data: memoryview
    relocations: list[Relocation] = field(default_factory=list)
    address: int = 0  # its final address, once the file is laid out


@dataclass(frozen=True)
class Object:
    """One object file for x86-64 or AArch64."""

    image: bytes

    def __post_init__(self) -> None:
        if self.image[:6] != b"\x7fELF\x02\x01" or len(self.image) < 64 or self._header[1] != 1:
            raise LinkError("an object is not a relocatable file of 64-bit little-endian ELF")
        if self.machine not in (X86_64, AARCH64):
            raise LinkError(
                f"objects of ELF machine {self.machine} are not supported by the built-in linker"
            )

    @property
    def machine(self) -> int:
        """The processor of the object, by its ELF machine number."""
        return self._header[2]

    @cached_property
    def sections(self) -> Mapping[int, ObjectSection]:
        """The loaded (SHF_ALLOC) sections, by their number."""
        sections = {}
        names = self._headers[self._header[13]]
        for number, (name, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(
            self._headers
        ):
            if flags & ALLOC:
                if flags & THREAD_LOCAL:
                    raise LinkError("an object has thread-local data")
                data = memoryview(self.image)[offset : offset + (0 if kind == _NO_BITS else size)]
                sections[number] = ObjectSection(
                    self._text(names, name), flags, size, max(alignment, 1), data
                )
        for _, kind, _, _, offset, size, _, target, _, _ in self._headers:
            if kind == _RELOCATIONS and target in sections:
                for at, info, addend in struct.iter_unpack(
                    "<QQq", self.image[offset : offset + size]
                ):
                    sections[target].relocations.append(
                        Relocation(
                            at, info & 0xFFFFFFFF, self._symbol(sections, info >> 32), addend
                        )
                    )
        return sections

    @cached_property
    def globals(self) -> tuple[ElfSymbol, ...]:
        """The global symbols, including undefined ones."""
        symbols = (self._symbol(self.sections, number) for number in range(len(self._symbols)))
        return tuple(symbol for symbol in symbols if symbol.is_global)

    def _symbol(self, sections: Mapping[int, ObjectSection], number: int) -> ElfSymbol:
        name, info, _, section, value, size = self._symbols[number]
        text = self._text(self._headers[self._symbol_table[6]], name)
        if section in (_ABSOLUTE, _COMMON) or section >= _RESERVED:
            if info & 15 == 4:  # the name of the source file
                return ElfSymbol(text, None, 0, False, False, False, 0)
            raise LinkError(f"'{text}' is an absolute or a common symbol")
        # in a note section, which no code refers to
        if section and section not in sections:
            return ElfSymbol(text, None, 0, False, False, False, 0)
        binding, kind = info >> 4, info & 15
        return ElfSymbol(
            text, sections.get(section), value, binding > 0, binding == 2, kind == 2, size
        )

    @cached_property
    def _symbols(self) -> list[tuple[int, ...]]:
        _, _, _, _, offset, size, *_ = self._symbol_table
        return [*struct.iter_unpack("<IBBHQQ", self.image[offset : offset + size])]

    @cached_property
    def _symbol_table(self) -> tuple[int, ...]:
        return next(header for header in self._headers if header[1] == _SYMBOLS)

    @cached_property
    def _header(self) -> tuple[int, ...]:
        return struct.unpack_from("<16sHHIQQQIHHHHHH", self.image)

    @cached_property
    def _headers(self) -> list[tuple[int, ...]]:
        start, count = self._header[6], self._header[12]
        return [*struct.iter_unpack("<IIQQQQIIQQ", self.image[start : start + 64 * count])]

    def _text(self, table: tuple[int, ...], at: int) -> str:
        start = table[4] + at
        return self.image[start : self.image.index(b"\0", start)].decode()
