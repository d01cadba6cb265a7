"""Selects the sections of objects that go into a file, their order, and imports from other
libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xlac_cpu.ahead.elf.objects import (
    EXECUTE,
    WRITE,
    ElfSymbol,
    LinkError,
    Object,
    ObjectSection,
    Relocation,
)
from xlac_cpu.ahead.elf.relocations import PROCESSORS, Processor

NAMES = {
    (0, False): ".rodata",
    (EXECUTE, False): ".text",
    (WRITE, False): ".data",
    (WRITE, True): ".bss",
}


@dataclass(frozen=True)
class Selection:
    """Objects, their exported symbols, and what these need. `start`, the entry point of an
    executable, is empty for a shared library; `open`: undefined symbols are resolved by the loading
    process.
    """

    objects: Sequence[Object]
    exports: Sequence[str] | None
    name: str = ""
    start: str = ""
    open: bool = False

    @cached_property
    def machine(self) -> int:
        """The processor of all objects, by its ELF machine number."""
        machines = {item.machine for item in self.objects}
        if len(machines) > 1:
            raise LinkError("the objects are for different processors")
        return machines.pop()

    @cached_property
    def definitions(self) -> dict[str, ElfSymbol]:
        """The global symbols that objects define, by name; strong definitions take precedence over
        weak ones.
        """
        definitions: dict[str, ElfSymbol] = {}
        for symbol in (
            symbol for item in self.objects for symbol in item.globals if symbol.defined
        ):
            if symbol.name in definitions and not (symbol.weak or definitions[symbol.name].weak):
                raise LinkError(f"'{symbol.name}' is defined twice")
            if symbol.name not in definitions or definitions[symbol.name].weak:
                definitions[symbol.name] = symbol
        return definitions

    @cached_property
    def seen(self) -> tuple[ElfSymbol, ...]:
        """The exported symbols."""
        names = sorted(self.definitions) if self.exports is None else self.exports
        missing = [name for name in names if name not in self.definitions]
        if missing:
            raise LinkError(f"'{missing[0]}' is not defined")
        return tuple(self.definitions[name] for name in names)

    @cached_property
    def used(self) -> list[ObjectSection]:
        """The sections reachable from exported symbols, in the order of the objects."""
        reached: set[ObjectSection] = set()
        waiting = [symbol.section for symbol in self.seen]
        while waiting:
            section = waiting.pop()
            if section is not None and section not in reached:
                reached.add(section)
                waiting += [
                    self._resolved(relocation.symbol).section for relocation in section.relocations
                ]
        return [
            section
            for item in self.objects
            for section in item.sections.values()
            if section in reached
        ]

    def _resolved(self, symbol: ElfSymbol) -> ElfSymbol:
        """The definition that a symbol resolves to, or itself if another library has it."""
        if not symbol.is_global:
            return symbol
        definition = self.definitions.get(symbol.name, symbol)
        if not definition.defined and not self.open:
            raise LinkError(f"undefined symbol: {symbol.name}")
        return definition

    @cached_property
    def places(self) -> dict[str, list[tuple[ObjectSection, int]]]:
        """The sections of each output part, each with its offset."""
        places: dict[str, list[tuple[ObjectSection, int]]] = {}
        ends: dict[str, int] = {}
        for section in self.used:
            if section.flags & WRITE and section.flags & EXECUTE:
                raise LinkError(f"section '{section.name}' is written and executed")
            name = NAMES[section.flags & (WRITE | EXECUTE), len(section.data) < section.size]
            at = ends.get(name, 0)
            at += -at % section.alignment
            places.setdefault(name, []).append((section, at))
            ends[name] = at + section.size
        return places

    @cached_property
    def table(self) -> list[ElfSymbol]:
        """The symbols in the global offset table: those of other libraries, and those that code
        loads from it.
        """
        symbols: dict[ElfSymbol, None] = {}
        for relocation in self._relocations:
            symbol, kind = self._resolved(relocation.symbol), self.processor.kind(relocation.kind)
            if kind.through_table or not symbol.defined:
                if not kind.through_table and not kind.call:
                    raise LinkError(
                        f"the address of '{symbol.name}', which another library has, is needed in "
                        "place"
                    )
                symbols[symbol] = None
        return [*symbols]

    @cached_property
    def outside(self) -> list[ElfSymbol]:
        """The symbols of the table that other libraries define."""
        return [symbol for symbol in self.table if not symbol.defined]

    @cached_property
    def pointers(self) -> list[tuple[ObjectSection, Relocation]]:
        """Addresses in data, which the loader of a shared library relocates."""
        pointers = []
        for section in self.used if not self.start else ():
            for relocation in section.relocations:
                if self.processor.kind(relocation.kind).pointer:
                    if not section.flags & WRITE:
                        raise LinkError(
                            f"section '{section.name}' holds addresses and is read-only"
                        )
                    pointers.append((section, relocation))
        return pointers

    @property
    def _relocations(self) -> list[Relocation]:
        return [relocation for section in self.used for relocation in section.relocations]

    @cached_property
    def processor(self) -> Processor:
        """The relocation types of the processor."""
        return PROCESSORS[self.machine]
