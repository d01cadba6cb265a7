"""The opencl backend: facts of the device, OpenCL C, and its execution by pyopencl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xlac_opencl import facts
from xlac_opencl.device import EXACT, OPTIONS, OpenCLDevice, opened
from xlac_opencl.dialect import OPENCL, SWAPS
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.module import module_text
from xlac_sdk.host.capi import identifier
from xlac_sdk.host.device_c.driver import ENTRY_FORMS, FORMS, HostDriver
from xlac_sdk.host.device_c.package import text_package
from xlac_sdk.host.package import Package, Packaging, Variants
from xlac_sdk.host.runner import Runner
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.support.templates import template
from xlac_sdk.target import Request, Target

HOST = HostDriver(
    OPENCL,
    "devices with OpenCL 1.2",
    (Path(__file__).parent / "host.c").read_text(encoding="utf-8"),
    "-lOpenCL",
    {"BUILD_OPTIONS": f'"{OPTIONS} {EXACT}"'},
)


class OpenCLBackend(Backend):
    """Any device with OpenCL 1.2; `opencl:1` is the second of this machine."""

    name = "opencl"
    forms, usual = ("cl", *FORMS), ("cl",)
    entry_forms = ("cl", *ENTRY_FORMS)
    records = chooses_checks = True
    warps = (8, 16, 32, 64)

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def on(self, number: int) -> OpenCLBackend:
        return OpenCLBackend(number)

    def target(self, request: Request) -> Target:
        return facts.target(request, self.number).tuned(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """One file of OpenCL C with every kernel of the program."""
        verify_program(program)
        made = module_text(grids(program, target), OPENCL, SWAPS)
        text = template("xlac_opencl", "module.cl.j2").render(
            made=made,
            options=f"{OPTIONS} {EXACT}",
            doubles=DType.F64 in target.dtypes,
            swaps=any("atom_cmpxchg" in function for function in made.functions),
        )
        return {f"{identifier(program.name)}.cl": text}

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Writes the text; the driver compiles it when it is loaded, and keeps the result."""
        ((name, text),) = sources.items()
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        device = OpenCLDevice(artifact, opened(self.number))
        return Runner(device, grids(program, target))

    def package(self, variants: Variants, wanted: Packaging, folder: Path) -> Package:
        return text_package(self, variants, wanted, folder, HOST)
