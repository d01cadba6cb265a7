"""The opencl backend: facts of the device, OpenCL C, and its execution by pyopencl."""

from __future__ import annotations

from pathlib import Path

from xlac_opencl import facts
from xlac_opencl.device import OPTIONS, OpenCLDevice, device_of
from xlac_opencl.dialect import OPENCL, SUBGROUPS, SWAPS
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.module import module_text
from xlac_sdk.host.capi import identifier
from xlac_sdk.host.device_c.driver import ENTRY_FORMS, FORMS, HostDriver
from xlac_sdk.host.ports.text_backend import TextBackend
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
    {"BUILD_OPTIONS": f'"{OPTIONS}"'},
)


class OpenCLBackend(TextBackend):
    """Any device with OpenCL 1.2; `opencl:1` is the second of this machine."""

    name, driver = "opencl", HOST
    forms, usual = ("cl", *FORMS), ("cl",)
    entry_forms = ("cl", *ENTRY_FORMS)
    records = chooses_checks = True
    warps = (8, 16, 32, 64)

    def target(self, request: Request) -> Target:
        return facts.target(request, self.number).tuned(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """One file of OpenCL C with every kernel of the program."""
        verify_program(program)
        subgroup = facts.subgroup(target)
        made = module_text(grids(program, target), SUBGROUPS if subgroup else OPENCL, SWAPS)
        text = template("xlac_opencl", "module.cl.j2").render(
            made=made,
            subgroup=subgroup,
            options=OPTIONS,
            doubles=DType.F64 in target.dtypes,
            swaps=any("atom_cmpxchg" in function for function in made.functions),
        )
        return {f"{identifier(program.name)}.cl": text}

    def opened(self, text: Path) -> OpenCLDevice:
        return OpenCLDevice(text, device_of(self.number))
