"""LLVM's code generators, one for each kind of machine, and the code that they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from xlac_cpu.llvm import resident
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine

_generating = Lock()


@cache
def code_generator(machine: Machine) -> Any:
    """LLVM's code generator for a machine: position-independent, so that objects can be cached and
    moved.
    """
    import llvmlite.binding as llvm

    if machine.arch == host().arch:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    kind = llvm.Target.from_triple(machine.triple)
    reloc = "static" if machine.arch.startswith("wasm") else "pic"
    machine_code = kind.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc=reloc, codemodel="default"
    )
    resident.give_back()
    return machine_code


def machine_code(module: Any, machine: Machine) -> bytes:
    """The object of an optimised module."""
    with _without_strength_reduction(machine):
        return bytes(code_generator(machine).emit_object(module))


def assembly(module: Any, machine: Machine) -> str:
    """The assembly of an optimised module."""
    with _without_strength_reduction(machine):
        return str(code_generator(machine).emit_assembly(module))


def reduced_before(machine: Machine) -> bool:
    """Whether loops are strength-reduced by `passes`, where that pays, and not while code is
    generated: there it is a quarter of the time, and x86's addresses rarely need it.
    """
    return machine.is_x86 and not machine.size


@contextmanager
def _without_strength_reduction(machine: Machine) -> Iterator[None]:
    """Generating code without LLVM's loop strength reduction, where it was run before. That is an
    option of the whole process, so it is set for as long as our code is generated, by one thread.
    """
    import llvmlite.binding as llvm

    if not reduced_before(machine):
        yield
        return
    with _generating:
        llvm.set_option("", "-disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("", "-disable-lsr=false")
