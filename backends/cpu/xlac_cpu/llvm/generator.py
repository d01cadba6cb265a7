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


def machine_code(module: Any, machine: Machine, reduced: bool = True) -> bytes:
    """The object of an optimised module, whose loops are strength-reduced or not."""
    with _strength_reduction(reduced):
        return bytes(code_generator(machine).emit_object(module))


def assembly(module: Any, machine: Machine, reduced: bool = True) -> str:
    """The assembly of an optimised module, likewise."""
    with _strength_reduction(reduced):
        return str(code_generator(machine).emit_assembly(module))


@contextmanager
def _strength_reduction(wanted: bool) -> Iterator[None]:
    """Generating code with or without LLVM's loop strength reduction, a quarter of the time. It is
    an option of the whole process, so it is set while our code is generated, by one thread.

    As a pass of its own, for single functions, it ends the process for some of them.
    """
    import llvmlite.binding as llvm

    with _generating:
        if not wanted:
            llvm.set_option("", "-disable-lsr=true")
        try:
            yield
        finally:
            if not wanted:
                llvm.set_option("", "-disable-lsr=false")
