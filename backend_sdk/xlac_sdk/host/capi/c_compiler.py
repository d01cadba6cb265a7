"""The system's C compiler, for running generated code."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xlac_sdk.host import tool
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError

NAMES = ("cc", "gcc", "clang")
# products must not be contracted into sums: see legalize
FLAGS = ("-std=c99", "-O2", "-ffp-contract=off")
SHARED = ("-fPIC", "-shared")


def shared(file: Path, *flags: str, links: Sequence[str] = ()) -> Path:
    """Compiles a C file to a shared library beside it."""
    return compiled(file, file.with_suffix(".so"), *SHARED, *flags, links=links)


def compiled(file: Path, output: Path, *flags: str, links: Sequence[str] = ()) -> Path:
    """Compiles and links a C file, with libm and `links`, such as `-lOpenCL`. Raises
    UnsupportedError if there is no compiler, or it rejects the file.

    The output goes to a temporary folder and is then copied: on a full disk a linker may crash, or
    leave a partial file.
    """
    compiler = next(filter(None, map(shutil.which, NAMES)), None)
    if compiler is None:
        problem = "running C code needs a C compiler, and none of cc, gcc and clang is on the path"
        raise UnavailableError(
            Diagnostic("XL5004", problem, hint="install one, or use --target cpu, which needs none")
        )
    with tempfile.TemporaryDirectory(prefix="xlac-") as folder:
        linked = Path(folder) / output.name
        errors = tool.run(
            [compiler, *FLAGS, *flags, file.name, *links, "-lm", "-o", str(linked)], file.parent
        )
        if errors:
            raise UnsupportedError(
                Diagnostic("XL5023", f"{compiler} cannot compile {file.name}:\n{errors[:4000]}")
            )
        shutil.copy(linked, output)
    return output
