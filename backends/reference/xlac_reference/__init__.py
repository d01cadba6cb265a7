"""The reference backend: programs run by the SDK's interpreter. Slow, checked, and the shortest
possible port.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.text import show_program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request, Target


class ReferenceBackend(Backend):
    """Interprets kernels in NumPy, so wide vectors make it fast: 1,024 f32 lanes cost little more
    than one.
    """

    name = "reference"

    def target(self, request: Request) -> Target:
        request.refuse("reference", "cpu", "triple", "features", "arch")
        # NumPy has no fma: it is exact here, but slower than two operations
        native = frozenset(Primitive) - {Primitive.FMA, Primitive.DOT2}
        found = Target(
            "reference",
            vector_bytes=4096,
            masked=True,
            gathers=True,
            primitives=native,
            collectives=True,
            host_calls=True,
        )
        return found.with_given(request)

    def peak_flops(self, threads: int) -> float:
        return 1e9

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        return {"program.txt": show_program(program)}

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder / "program.txt"

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Interpreter(program)


BACKEND = ReferenceBackend()
