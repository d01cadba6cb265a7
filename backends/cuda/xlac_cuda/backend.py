"""The cuda backend: target, CUDA C++, machine code and execution for NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Request, Target

if TYPE_CHECKING:
    from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant


class CudaBackend(Backend):
    """GPUs from Ampere on. pycuda and the driver are not used until a program is loaded."""

    name = "cuda"
    overlapping = True

    def __init__(self, device: int = 0) -> None:
        """For the GPU with this number; `cuda:1` is the second of this machine."""
        self.device = device

    def on(self, number: int) -> CudaBackend:
        return CudaBackend(number)

    def on_rank(self, local: int) -> CudaBackend:
        """The GPU of a rank's number; the only one where there is one, as launchers may give each
        process its own (CUDA_VISIBLE_DEVICES). Raises UnsupportedError for more ranks than GPUs.
        """
        from xlac_cuda.device.devices import of_rank

        return self.on(of_rank(local))

    forms = ("cu", "ptx", "cubin")
    usual = ("cu", "cubin")
    entry_forms = forms
    control: ClassVar[Mapping[str, str]] = {
        "while": "decided on the GPU, by drivers before CUDA 12.4 on the host",
        "cond": "decided on the GPU, by drivers before CUDA 12.8 on the host",
        "scan": "launches in a row, one for each round",
    }

    def target(self, request: Request) -> Target:
        from xlac_cuda import architectures

        return architectures.target(request, self.device)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """One file of CUDA C++ with every kernel of the program."""
        from xlac_cuda.emit import module

        return module.emit(program, target)

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Compiles with NVRTC, or nvcc if that is not available. Raises UnsupportedError if neither
        is.
        """
        from xlac_cuda.build import compiler

        return compiler.build(sources, folder)

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        from xlac_cuda.device.open import gpu
        from xlac_cuda.run.entered import loaded

        return loaded(artifact, program, target, gpu(self.device))

    def package(
        self, variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path
    ) -> Package:
        from xlac_cuda import package

        return package.package(variants, wanted, folder)

    def open(self, artefact: Artefact) -> Executable:
        """Loads machine code, PTX (which the driver compiles), or CUDA C++, which is
        compiled now.
        """
        from xlac_cuda import package

        return package.opened(artefact)

    def built_by(self) -> str:
        from xlac_cuda.build import compiler

        return compiler.identity()

    def asm(self, program: Program, target: Target) -> str:
        """The program's PTX, for people."""
        from xlac_cuda.build import compiler

        ((name, text),) = self.emit(program, target).items()
        return compiler.compiled(text, name).ptx

    def resources(self, program: Program, target: Target) -> str:
        """The resources of every kernel: registers, spills, shared memory."""
        from xlac_cuda.build import resources

        return resources.table(program, target)
