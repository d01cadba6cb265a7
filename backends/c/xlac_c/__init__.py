"""The c backend: a program as one dependency-free C99 file and its header, for any compiler and any CPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from xlac_c.library import Library
from xlac_c.source import Source
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.ctext import C99, Dialect
from xlac_sdk.dtypes import DType
from xlac_sdk.legalize import legalize
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Program
from xlac_sdk.rewrite_program import with_kernels
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request, Target
from xlac_sdk.verify import verify_program

FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")  # a product must stay a product: see legalize


class CBackend(Backend):
    """Scalar C; the compiler that builds it may vectorise."""

    name = "c"
    text_only = True
    dialect: Dialect = C99

    def target(self, request: Request) -> Target:
        """Any machine: what the compiler that builds the file aims at. Raises SourceError for a CPU or triple."""
        for what, given in (("CPU", request.cpu), ("triple", request.triple), ("architecture", request.arch)):
            if given:
                problem = f"the c backend writes portable C and takes no {what} ('{given}')"
                raise SourceError(Diagnostic("XL5022", problem, hint="give it to the C compiler instead"))
        native = frozenset(Primitive) - {Primitive.SIGMOID}  # 1 / (1 + exp(-x)) loses the small results
        lacks = frozenset((Primitive.FMA, d) for d in DType)  # a call of fma() without the instruction is slow
        return Target("c", primitives=native, lacks=lacks, size=request.size)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        fast = program.facts.get("precision") == "fast"
        return Source(with_kernels(program, lambda k: legalize(k, target, fast)), self.dialect).files()

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Compiles with the system's C compiler. Raises UnsupportedError where there is none."""
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            problem = "running C code needs a C compiler, and none of cc, gcc and clang is on the path"
            raise UnsupportedError(Diagnostic("XL5004", problem, hint="install one, or use --target cpu, which needs none"))
        (file,) = (name for name in sources if name.endswith(".c"))
        made = folder / file.replace(".c", ".so")
        done = subprocess.run(
            [compiler, *FLAGS, file, "-lm", "-o", made.name], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UnsupportedError(Diagnostic("XL5023", f"{compiler} cannot compile {file}:\n{done.stderr[:4000]}"))
        return made

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Library(artifact, program)


BACKEND = CBackend()
