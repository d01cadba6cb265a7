"""Ahead of time: the forms that an artefact may take, what a user asks of them, and what a backend
says it made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.support.choices import unknown_word
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from xlac_sdk.backend import Backend

FORMS = {
    "c": "one C99 file", "h": "the C header", "ll": "LLVM's text", "s": "assembly",
    "o": "one object file", "a": "a static library", "so": "a shared library",
    "exe": "a command-line program", "wasm": "a WebAssembly module", "hpp": "a C++ wrapper",
    "rs": "a Rust module", "cmake": "a CMake package",
    "main": "the C file of a program that reads and writes .npy files", "cu": "CUDA C++",
    "ptx": "assembly for GPUs of one kind and later", "cubin": "code for one kind of GPU",
    "cl": "OpenCL C",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProcessorVariant:
    """A program as it was lowered for one processor; several of them make one artefact that chooses
    when it runs.
    """

    program: Program
    target: Target
    unchecked: Program | None = None  # of a checked program, where a package holds both


@dataclass(frozen=True, slots=True)
class Packaging:
    """What the user asked for: the forms, where the weights go, and how to link."""

    forms: tuple[str, ...]
    weights: WeightsOrigin = WeightsOrigin.EMBED
    static: bool = False  # the program runs without shared libraries
    libm: bool = True  # the C library's mathematics may be called


@dataclass(frozen=True, slots=True)
class Package:
    """What a backend left in the folder: the file that `Backend.open` loads, and that of the
    weights; "" for none.

    `needs` are libraries that have to be installed where it runs, by name.
    """

    library: str = ""
    weights: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """An artefact as its manifest describes it. `program` has slots and sizes, but no steps and no
    constants.
    """

    folder: Path
    program: Program
    package: Package
    weights: WeightsOrigin = WeightsOrigin.EMBED
    # the processors that it is for: `Target.machine` of each
    machines: tuple[Mapping[str, Any], ...] = ()


Variants = Sequence[ProcessorVariant]


def text_package(backend: Backend, variants: Variants, folder: Path) -> Package:
    """The package of a backend whose artefact is one text that the driver compiles: the text, and
    the program with its weights beside it, for `xlac run`. Raises SourceError for several variants.
    """
    from xlac_sdk.programs import portable

    if len(variants) > 1:
        problem = f"target '{backend.name}' compiles for one kind of device at a time"
        raise SourceError(Diagnostic("XL5011", problem, hint="--arch names it"))
    (variant,) = variants
    file = backend.build(backend.emit(variant.program, variant.target), folder)
    portable.write(folder, variant.program, variant.target)
    return Package(file.name)


def forms(backend: Backend, text: str) -> tuple[str, ...]:
    """The forms of `--emit c,h`, each once. Raises SourceError for what is no form,
    UnsupportedError for what the backend has not."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise SourceError(Diagnostic("XL5011", "--emit names no form", hint=offered(backend)))
    for name in names:
        if name in backend.forms:
            continue
        if name in FORMS:
            problem = f"target '{backend.name}' cannot emit '{name}' ({FORMS[name]})"
            raise UnsupportedError(Diagnostic("XL5011", problem, hint=offered(backend)))
        raise unknown_word(f"'{name:.80}' is no form of an artefact", name, backend.forms, "XL5011")
    return names


def offered(backend: Backend) -> str:
    """What a target can emit, for a hint."""
    if not backend.forms:
        return f"target '{backend.name}' has no forms to choose from; leave --emit out"
    return f"target '{backend.name}' can emit " + ", ".join(backend.forms)
