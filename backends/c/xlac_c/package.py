"""Ahead-of-time packages: the C file and what is built from it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xlac_c.lowering import lowered
from xlac_c.source import api_of, both_files, c_file
from xlac_sdk.backend import Executable
from xlac_sdk.emit.ctext import Dialect
from xlac_sdk.host import capi
from xlac_sdk.host.capi import c_compiler
from xlac_sdk.host.capi.library import Library, weights_of
from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
from xlac_sdk.host.ranks.parts import RankParts
from xlac_sdk.programs.constants import WeightsOrigin, file_bytes
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError

FORMS = ("c", "h", "hpp", "rs", "cmake", "main", "so", "exe")
USUAL = ("c", "h")
RANK_FORMS = ("c", "h")  # forms of programs that call MPI
ENTRY_FORMS = ("c", "h", "hpp", "rs", "cmake", "so")  # forms of programs with entries


def package(
    variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path, dialect: Dialect
) -> Package:
    """Writes the forms; the C file and its header always, since the others are built from them."""
    if len(variants) > 1:
        problem = "the c backend writes portable C, which is not chosen by processor"
        raise SourceError(Diagnostic("XL5022", problem, hint="give one --cpu or none"))
    (variant,) = variants
    if variant.ranks is not None:
        return _of_ranks(variant, variant.ranks, wanted, folder, dialect)
    lowered_program = lowered(variant.program, variant.target, wanted.libm, dialect)
    api = api_of(lowered_program.program, wanted.weights)
    name, flags = api.prefix, list[str]()
    text = c_file(lowered_program, api)
    if variant.unchecked is not None and not api.weight_bytes:
        other = lowered(variant.unchecked, variant.target, wanted.libm, dialect)
        plain = api_of(other.program, wanted.weights)
        api = replace(
            api, tears=api.tears or plain.tears, arena_ends=(*api.arena_ends, *plain.arena_ends)
        )
        text, flags = both_files(other, lowered_program, api), [f"-D{api.upper}_CHECKED"]
    texts = {f"{name}.c": text, f"{name}.h": capi.header(api)}
    texts |= capi.wrappers(api, wanted.forms)
    if {"main", "exe"} & set(wanted.forms):
        texts[f"{name}_main.c"] = capi.npy_program(api)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    weights = f"{name}.weights" if api.weight_bytes else ""
    if weights:
        with (folder / weights).open("wb") as out:
            out.writelines(capi.weights_file(lowered_program.program))
    library = f"{name}.c"
    if "so" in wanted.forms:
        library = c_compiler.shared(folder / library, *flags).name
    if "exe" in wanted.forms:
        flags += ["-static"] if wanted.static else []
        c_compiler.compiled(folder / f"{name}.c", folder / name, f"{name}_main.c", *flags)
        if "main" not in wanted.forms:
            (folder / f"{name}_main.c").unlink()
    return Package(library, weights)


def _of_ranks(
    variant: ProcessorVariant, ranks: RankParts, wanted: Packaging, folder: Path, dialect: Dialect
) -> Package:
    """The C file of a program that calls MPI, its header, and a file of weights for each part of
    the ranks.
    """
    if wanted.weights is WeightsOrigin.INCBIN:
        problem = "--weights incbin does not go with --mesh: ranks have different files"
        raise UnsupportedError(Diagnostic("XL5011", problem, hint="embed, file or mmap"))
    firsts = ranks.firsts if ranks.stage_of else (variant.program,)
    first, *others = (lowered(one, variant.target, wanted.libm, dialect) for one in firsts)
    api = api_of(variant.program, wanted.weights, ranks)
    if api.weight_bytes:
        api = replace(api, weight_bytes=max(map(file_bytes, ranks.programs)))
    text = c_file(first, api, parts=ranks, others=others)
    for file, content in ((f"{api.prefix}.c", text), (f"{api.prefix}.h", capi.header(api))):
        (folder / file).write_text(content, encoding="utf-8")
    for number, program in enumerate(ranks.programs if api.weight_bytes else ()):
        with (folder / f"{api.prefix}.{number}.weights").open("wb") as out:
            out.writelines(capi.weights_file(program))
    return Package(f"{api.prefix}.c")


def opened(artefact: Artefact) -> Executable:
    """The shared library of an artefact, or its C file compiled now."""
    library = artefact.folder / artefact.package.library
    place = artefact.weights
    weights = (
        weights_of(artefact.folder / artefact.package.weights, place)
        if artefact.package.weights
        else None
    )
    if library.suffix == ".so":
        return Library(library, artefact.program, weights)
    with tempfile.TemporaryDirectory(prefix="xlac-") as folder:
        # has no effect on a program without stop checks
        chosen = f"-D{library.stem.upper()}_CHECKED"
        built = c_compiler.compiled(
            library, Path(folder) / f"{library.stem}.so", *c_compiler.SHARED, chosen
        )
        return Library(built, artefact.program, weights)
