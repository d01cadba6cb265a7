"""The c backend: a program as one dependency-free C99 file and its header, for any compiler and
CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xlac_c import lowering, package
from xlac_c.source import EMBED, api_of, c_file, constant_bytes
from xlac_sdk.backend import CORE_FLOPS, Backend, Executable
from xlac_sdk.emit.ctext import Dialect
from xlac_sdk.host.capi import WeightsOrigin, c_compiler, header, weights_file
from xlac_sdk.host.capi.library import Library, aligned
from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request, Target


class CBackend(Backend):
    """Scalar C; the compiler that builds it may vectorise."""

    name = "c"
    text_only = True
    forms = package.FORMS
    usual = package.USUAL
    entry_forms = package.ENTRY_FORMS
    rank_forms = package.RANK_FORMS
    records = chooses_checks = True
    dialect: Dialect = lowering.PORTABLE

    def peak_flops(self, threads: int) -> float:
        return CORE_FLOPS * max(1, threads)

    def target(self, request: Request) -> Target:
        """A generic target: the C compiler chooses the machine. Raises SourceError for a CPU or
        triple.
        """
        hint = "it writes portable C: give it to the C compiler instead"
        request.refuse("c", "cpu", "triple", "arch", "features", hint=hint, code="XL5022")
        return lowering.target(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        lowered = lowering.lowered(program, target, dialect=self.dialect)
        api = api_of(lowered.program, _placed(program))
        return {f"{api.prefix}.c": c_file(lowered, api), f"{api.prefix}.h": header(api)}

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Compiles with the system's C compiler. Raises UnsupportedError if there is none."""
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        (file,) = (folder / name for name in sources if name.endswith(".c"))
        return c_compiler.shared(file)

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Library(artifact, program, None if _placed(program).inside else _weights(program))

    def package(
        self, variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path
    ) -> Package:
        return package.package(variants, wanted, folder, self.dialect)

    def open(self, artefact: Artefact) -> Executable:
        return package.opened(artefact)


def _placed(program: Program) -> WeightsOrigin:
    """Where the weights of a program run in this process are stored: large ones are
    not compiled.
    """
    return WeightsOrigin.EMBED if constant_bytes(program) <= EMBED else WeightsOrigin.MMAP


def _weights(program: Program) -> NDArray[np.uint8]:
    """The weights file, in memory."""
    data = b"".join(weights_file(program))
    block = aligned(len(data))
    block[:] = np.frombuffer(data, np.uint8)
    return block


BACKEND = CBackend()
