"""Ahead-of-time packages: a program as CUDA C++, PTX or machine code, and the files with which
`xlac run` launches it on a GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from xlac_cuda.build import compiler
from xlac_cuda.emit import module
from xlac_cuda.libraries.calls import needed
from xlac_sdk.backend import Executable
from xlac_sdk.host import capi
from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
from xlac_sdk.programs import portable
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError

LOADED = ("cubin", "ptx", "cu")  # the order in which available forms are preferred for loading


def package(variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path) -> Package:
    """Writes the forms, and the program with its weights beside them. Compiles only if a compiled
    form is wanted.
    """
    if len(variants) > 1:
        raise SourceError(
            Diagnostic(
                "XL5201",
                "the cuda backend compiles for one architecture at a time",
                hint="--arch names it",
            )
        )
    if wanted.weights is not capi.WeightsOrigin.EMBED or wanted.static or not wanted.libm:
        problem = (
            "--weights, --static and --no-libm are for code that is linked: weights go to the GPU "
            "from a file"
        )
        raise UnsupportedError(Diagnostic("XL5011", problem))
    (variant,) = variants
    ((name, text),) = module.emit(variant.program, variant.target).items()
    files = {"cu": text.encode()}
    if {"ptx", "cubin"} & set(wanted.forms):
        code = compiler.compiled(text, name)
        files |= {"ptx": code.ptx.encode(), "cubin": code.cubin}
    stem = name.removesuffix(".cu")
    for form in wanted.forms:
        (folder / f"{stem}.{form}").write_bytes(files[form])
    portable.write(folder, variant.program, variant.target)
    return Package(
        f"{stem}.{next(form for form in LOADED if form in wanted.forms)}",
        needs=needed(variant.program),
    )


def opened(artefact: Artefact) -> Executable:
    """The program of an artefact on this machine's GPU. If it has just CUDA C++, that is compiled
    first.
    """
    from xlac_cuda.run.entered import loaded

    program, target = portable.read(artefact.folder)
    library = artefact.folder / artefact.package.library
    if library.suffix != ".cu":
        return loaded(library, program, target)
    with tempfile.TemporaryDirectory(prefix="xlac-") as folder:
        built = compiler.build({library.name: library.read_text(encoding="utf-8")}, Path(folder))
        return loaded(built, program, target)
