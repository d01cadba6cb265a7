"""Links many LLVM texts into one module that exports only the C API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xlac_cpu.llvm import generator, objects, passes
from xlac_cpu.llvm.host import host
from xlac_cpu.llvm.link import members
from xlac_cpu.llvm.process import ask
from xlac_cpu.machine import Machine

# functions that LLVM calls in its last passes: until then they look unused
CALLED = ("memcpy", "memset")


@dataclass(frozen=True, slots=True)
class Unit:
    """The input of one object: the API's text, each variant's texts, and the exported functions."""

    entry: str
    variants: tuple[tuple[str, ...], ...]
    exports: tuple[str, ...]
    # of each variant: the functions that `entry` calls, renamed with its number
    called: tuple[str, ...] = ("run",)

    def compiled(self, form: str) -> bytes:
        """The object or assembly, made in this process."""
        with objects.Modules() as modules:
            machine = objects.machine_of(self.entry)
            whole = self._linked(machine, modules)
            if form == "assembly":
                return generator.assembly(whole, machine).encode()
            return generator.machine_code(whole, machine)

    def _linked(self, machine: Machine, modules: objects.Modules) -> Any:
        """The one module."""
        whole = objects.optimise(self.entry, machine, modules)
        for number, texts in enumerate(self.variants):
            part = None
            for text in texts:
                module = objects.optimise(text, objects.machine_of(text), modules)
                if part is None:
                    part = module
                else:
                    part.link_in(module)
            for function in _defined(part):
                if function.name in self.called:
                    function.name = f"{function.name}_{number}"
                else:
                    function.linkage = "internal"
            whole.link_in(part)
        for function in _defined(whole):
            if function.name not in self.exports:
                function.linkage = "external" if function.name in CALLED else "internal"
        if machine.size:
            passes.shrink(whole, machine)
        for function in _defined(whole):
            if function.name in CALLED:
                function.linkage = "internal"
            elif function.name not in self.exports and machine.size:
                function.linkage = "private"  # not in any symbol table
        return whole


def compiled(units: Sequence[Unit], form: str = "object") -> list[bytes]:
    """The objects, or assembly, of units for one kind of machine; made in one separate process if
    it is not this one.
    """
    machine = objects.machine_of(units[0].entry)
    if machine.arch == host().arch:
        return [unit.compiled(form) for unit in units]
    question = {
        "do": "units",
        "triple": machine.triple,
        "form": form,
        "units": list(map(asdict, units)),
    }
    return [*members(ask(question)).values()]


def _defined(module: Any) -> list[Any]:
    return [function for function in module.functions if not function.is_declaration]


def unit_of(facts: dict[str, Any]) -> Unit:
    """A Unit from JSON."""
    return Unit(
        facts["entry"],
        tuple(map(tuple, facts["variants"])),
        tuple(facts["exports"]),
        tuple(facts["called"]),
    )
