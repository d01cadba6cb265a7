"""LLVM text to optimised modules, objects or assembly."""

from __future__ import annotations

import json
from typing import Any, Self

from xlac_cpu.emit.function import UNREDUCED
from xlac_cpu.llvm import generator, hand_written, passes, resident
from xlac_cpu.llvm.host import host
from xlac_cpu.llvm.process import ask
from xlac_cpu.machine import Machine
from xlac_sdk.source import Diagnostic, XlacError
from xlac_sdk.support.limits import limited

# characters of text for which compiling takes so long that another millisecond does not matter
LONG = 64 << 10


class CodeError(XlacError):
    """LLVM rejected generated text: a bug of xlac."""

    exit_code = 70


class Modules:
    """LLVM's modules of one context; both are freed at the end of a `with` statement.

    LLVM keeps every type, constant and string of a context until the context is freed. The global
    one never is, and would grow with each program. Freed by Python's garbage collector, the context
    could go before its modules, which is fatal.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._context = llvm.create_context()
        self._modules: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for module in self._modules:
            module.close()
        self._context.close()

    def parsed(self, text: str) -> Any:
        """The module of a text. Raises RuntimeError for one that LLVM refuses."""
        import llvmlite.binding as llvm

        self._modules.append(llvm.parse_assembly(text, self._context))
        return self._modules[-1]


def machine_of(text: str) -> Machine:
    """The machine for which a module was written, from its first line."""
    return Machine(**json.loads(text[: text.index("\n")].removeprefix("; xlac ")))


def is_reduced(text: str) -> bool:
    """Whether the loops of a module are strength-reduced."""
    return not text[text.find("\n") + 1 :].startswith(UNREDUCED)


def object_code(text: str, sparing: bool = False) -> bytes:
    """The object file of a module, made with little memory if `sparing`; in a separate process for
    another kind of machine.
    """
    machine = machine_of(text)
    # a process can be killed, LLVM in this one cannot
    if machine.arch != host().arch or limited():
        return ask({"do": "object", "triple": machine.triple, "text": text})
    return compile_here(text, machine, sparing)


def assembly(text: str) -> str:
    """The assembly of a module, optimised as its object is."""
    machine = machine_of(text)
    if machine.arch != host().arch:
        return ask({"do": "assembly", "triple": machine.triple, "text": text}).decode()
    return assembly_here(text, machine)


def assembly_here(text: str, machine: Machine) -> str:
    """The assembly of a module, made in this process."""
    with Modules() as modules:
        return generator.assembly(optimise(text, machine, modules), machine, is_reduced(text))


def compile_here(text: str, machine: Machine, sparing: bool = False) -> bytes:
    """The object of a module. Memory of LLVM's library that optimising took is released before code
    generation, which uses other parts.
    """
    with Modules() as modules:
        optimised = optimise(text, machine, modules)
        if sparing or len(text) >= LONG:
            resident.give_back()
        return generator.machine_code(optimised, machine, is_reduced(text))


def optimise(text: str, machine: Machine, modules: Modules | None = None) -> Any:
    """A parsed and optimised module.

    modules: those that this one is freed with, and may be linked with; None in a process that ends
    soon.
    """
    import llvmlite.binding as llvm

    code = generator.code_generator(machine)
    parse = modules.parsed if modules else llvm.parse_assembly
    if hand_written.is_by_hand(text):
        return hand_written.module(text, machine, code, parse)
    try:
        module = parse(text)
        module.data_layout = str(code.target_data)
        module.verify()
    except RuntimeError as error:
        raise CodeError(
            Diagnostic("XL9101", f"LLVM refuses the text that the cpu backend wrote: {error}")
        ) from error
    passes.simplify(module, machine)
    return module
