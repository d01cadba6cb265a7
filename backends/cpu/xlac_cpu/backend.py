"""The cpu backend: target, LLVM text, objects and execution."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlac_sdk.backend import CORE_FLOPS, Backend, Executable
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, UnavailableError
from xlac_sdk.target import Request, Target

if TYPE_CHECKING:
    from pathlib import Path

    from xlac_cpu.run.executable import CpuExecutable
    from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
    from xlac_sdk.machine.measuring import Probes

LARGE = 16 << 20  # bytes of a program's constants from which LLVM's memory is released first


class CpuBackend(Backend):
    """Any CPU for which LLVM has a code generator; programs for this machine can run."""

    name = "cpu"
    relies_on = ("llvmlite",)
    forms = ("h", "hpp", "rs", "cmake", "o", "a", "so", "exe", "s", "ll", "wasm")
    usual = ("h", "so")
    entry_forms = tuple(form for form in forms if form != "exe")
    records = True

    def peak_flops(self, threads: int) -> float:
        return CORE_FLOPS * max(1, threads)

    def target(self, request: Request) -> Target:
        from xlac_cpu import target

        return target.target(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        from xlac_cpu.emit import module
        from xlac_cpu.machine import Machine

        return module.emit(program, target, Machine.of(target))

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """A static library of the program's objects, named by the digest of its sources; an
        existing one is reused.
        """
        from xlac_cpu.llvm import link

        archive = folder / f"program-{_digest(sources)}.a"
        if not archive.exists():
            library = link.archive([_object(text) for text in sources.values()])
            folder.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(library)
            part.replace(archive)
        return archive

    def summary(self, program: Program) -> Mapping[str, Any]:
        from xlac_cpu import duration
        from xlac_cpu.run import executable, fastcall

        watched, tears = executable.watching(program)
        long = duration.estimate(program.steps) > fastcall.RELEASE
        return {executable.LONG: long, executable.WATCHED: watched, executable.TEARS: tears}

    def load(self, artifact: Path, program: Program, target: Target) -> CpuExecutable:
        """For large constants, LLVM finishes and releases its memory before they are made."""
        from xlac_cpu.emit import layout
        from xlac_cpu.llvm import link, resident, tile_registers
        from xlac_cpu.llvm.host import host
        from xlac_cpu.machine import Machine
        from xlac_cpu.run import fastcall
        from xlac_cpu.run.executable import CpuExecutable

        machine = Machine.of(target)
        if machine.arch != host().arch:
            problem = f"a program for {machine.triple} cannot run on {host().triple}"
            raise UnavailableError(Diagnostic("XL5109", problem))
        if not tile_registers.suffice(target):
            problem = "a program that uses AMX cannot run: its registers are not this process's"
            raise UnavailableError(Diagnostic("XL5109", problem))
        if sum(slot.nbytes for slot in layout.fixed(program)) < LARGE:
            return CpuExecutable(link.loaded(artifact, program), program, target)
        resident.give_back()
        code = link.loaded(artifact, program)
        resident.give_back()
        if not program.state_bytes and fastcall.supported():
            fastcall.code()
            resident.give_back()
        return CpuExecutable(code, program, target)

    def probes(self, target: Target) -> Probes:
        from xlac_cpu.run import probes

        found = probes.probes(target.hardware)
        return found._replace(probes=[*found.probes, *probes.arithmetic(self, target)])

    def settle(self, artifact: Path, program: Program, target: Target, folder: Path) -> None:
        """A shared library of the objects, if there is a linker: the system loads it
        without LLVM.
        """
        from xlac_cpu.run import shared

        shared.write(artifact, target, folder)

    def revive(self, folder: str, program: Program, target: Target) -> CpuExecutable | None:
        from xlac_cpu.llvm import tile_registers
        from xlac_cpu.run import shared
        from xlac_cpu.run.executable import CpuExecutable

        code = shared.opened(folder, program) if tile_registers.suffice(target) else None
        return None if code is None else CpuExecutable(code, program, target)

    def package(
        self, variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path
    ) -> Package:
        from xlac_cpu.ahead.package import package

        return package(variants, wanted, folder)

    def open(self, artefact: Artefact) -> Executable:
        from xlac_sdk.host.capi.opened import opened

        return opened(artefact)

    def asm(self, program: Program, target: Target) -> str:
        """The program's assembly, for people; hand-written C as it is."""
        from xlac_cpu.hand_written import is_c
        from xlac_cpu.llvm import objects

        sources = self.emit(program, target).values()
        return "\n".join(text if is_c(text) else objects.assembly(text) for text in sources)

    def emit_object(self, program: Program, target: Target) -> bytes:
        """The program for any machine as a static library of object files."""
        from xlac_cpu.llvm import link

        return link.archive([_object(text) for text in self.emit(program, target).values()])


def _object(text: str) -> bytes:
    """The object of one source: LLVM's text, or hand-written C."""
    from xlac_cpu.hand_written import is_c
    from xlac_cpu.llvm import objects

    if not is_c(text):
        return objects.object_code(text)
    from xlac_cpu.ahead import by_hand

    return by_hand.object_code(text)


def _digest(sources: Mapping[str, str]) -> str:
    """A digest of the sources and the compiler; the text names the CPU."""
    import llvmlite

    from xlac_sdk.support.hashing import blake2b

    digest = blake2b(f"{llvmlite.__version__}\n".encode(), digest_size=16)
    for name, text in sources.items():
        digest.update(f"{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()
