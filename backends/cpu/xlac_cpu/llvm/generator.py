"""LLVM's code generators: one for each kind of machine, kept."""

from __future__ import annotations

from functools import cache
from typing import Any

from xlac_cpu.llvm import resident
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine


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
