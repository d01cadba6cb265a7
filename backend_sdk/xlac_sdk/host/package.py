"""Packages made ahead of time: the forms of an artefact, the user's options, and the result of a
backend.
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
    from xlac_sdk.host.ranks.parts import RankParts

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
    """A program lowered for one processor; an artefact with several selects one at run time."""

    program: Program
    target: Target
    unchecked: Program | None = None  # for a checked program, where a package contains both
    ranks: RankParts | None = None  # of a program that ranks of a mesh run together


@dataclass(frozen=True, slots=True)
class Packaging:
    """The user's options: the forms, the place of the weights, and how to link."""

    forms: tuple[str, ...]
    weights: WeightsOrigin = WeightsOrigin.EMBED
    static: bool = False  # programs are linked statically
    libm: bool = True  # functions of libm may be called


@dataclass(frozen=True, slots=True)
class Package:
    """The files that a backend wrote: the one that `Backend.open` loads, and that of the weights;
    "" for none.

    `needs` are libraries that must be installed to run it, by name.
    """

    library: str = ""
    weights: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """An artefact as described by its manifest. `program` has slots and sizes, but no steps and no
    constants.
    """

    folder: Path
    program: Program
    package: Package
    weights: WeightsOrigin = WeightsOrigin.EMBED
    # the processors that it supports: `Target.machine` of each
    machines: tuple[Mapping[str, Any], ...] = ()


Variants = Sequence[ProcessorVariant]


def forms(backend: Backend, text: str) -> tuple[str, ...]:
    """The forms in a list such as `c,h`, each once. Raises SourceError for an unknown form,
    UnsupportedError for one that the backend lacks.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise SourceError(Diagnostic("XL5011", "--emit names no form", hint=offered(backend)))
    for name in names:
        if name in backend.forms:
            continue
        if name in FORMS:
            problem = f"target '{backend.name}' cannot emit '{name}' ({FORMS[name]})"
            raise UnsupportedError(Diagnostic("XL5011", problem, hint=offered(backend)))
        raise unknown_word(
            f"'{name:.80}' is not a form of an artefact", name, backend.forms, "XL5011"
        )
    return names


def offered(backend: Backend) -> str:
    """The forms of a target, for a hint."""
    if not backend.forms:
        return f"target '{backend.name}' has no forms to choose from; leave --emit out"
    return f"target '{backend.name}' can emit " + ", ".join(backend.forms)
