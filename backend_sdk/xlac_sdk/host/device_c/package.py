"""Packages of backends whose artefact is one text that a driver compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xlac_sdk.backend import Backend
from xlac_sdk.host.capi import c_compiler, identifier
from xlac_sdk.host.device_c.driver import FORMS, HostDriver
from xlac_sdk.host.device_c.program import host_program
from xlac_sdk.host.package import Package, Packaging, ProcessorVariant
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs import portable
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Target


def text_package(
    backend: Backend,
    variants: Sequence[ProcessorVariant],
    wanted: Packaging,
    folder: Path,
    driver: HostDriver | None = None,
) -> Package:
    """The package of a backend whose artefact is one text that the driver compiles: the text, and
    the program with its weights in separate files, for `xlac run`. With `driver` a backend has the
    forms of `driver.FORMS` too: the host's side as C, to which callers may give the file of
    weights, and what is over it.

    Raises SourceError for several variants, UnsupportedError for options of linked code, and where
    a shared library or a program is wanted and cannot be linked.
    """
    if len(variants) > 1:
        problem = f"target '{backend.name}' compiles for one kind of device at a time"
        raise SourceError(Diagnostic("XL5011", problem, hint="--arch names it"))
    host = driver is not None and bool(set(FORMS) & set(wanted.forms))
    outside = wanted.weights is not WeightsOrigin.EMBED and not host
    if outside or wanted.static or not wanted.libm:
        problem = "--weights, --static and --no-libm are for code that is linked"
        if driver is not None:
            problem = "--static and --no-libm link no driver of a device"
            problem = "--weights is for --emit c" if outside else problem
        raise UnsupportedError(Diagnostic("XL5011", f"{problem} (target '{backend.name}')"))
    (variant,) = variants
    sources = backend.emit(variant.program, variant.target)
    file = backend.build(sources, folder)
    portable.write(folder, variant.program, variant.target)
    if driver is not None and host:
        program, text = _launched(backend, variant.program, variant.target, sources)
        plain, flags = None, list[str]()
        if variant.unchecked is not None and wanted.weights is WeightsOrigin.EMBED:
            plain = _launched(backend, variant.unchecked, variant.target)
            flags = [f"-D{identifier(program.name).upper()}_CHECKED"]
        files = host_program(
            program, text, driver, backend.name, wanted.weights, wanted.forms, plain
        )
        for name, written in files.items():
            (folder / name).write_text(written, encoding="utf-8")
        _compile(folder / next(iter(files)), wanted.forms, flags, driver.link.split())
    return Package(file.name)


def _launched(
    backend: Backend, program: Program, target: Target, sources: Mapping[str, str] | None = None
) -> tuple[Program, str]:
    """A program of grids, and its text for the device."""
    ((_, text),) = (sources or backend.emit(program, target)).items()
    return grids(program, target), text


def _compile(file: Path, forms: Sequence[str], flags: Sequence[str], links: Sequence[str]) -> None:
    """Makes the forms that a compiler makes of a C file and of that of its program; those of a
    checked program check.
    """
    if "so" in forms:
        c_compiler.shared(file, *flags, links=links)
    if "exe" in forms:
        main = file.with_name(f"{file.stem}_main.c")
        c_compiler.compiled(file, file.with_suffix(""), main.name, *flags, links=links)
        if "main" not in forms:
            main.unlink()
