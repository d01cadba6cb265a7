"""Writes the output of `xlac build`: the backend's files and a manifest, all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from xlac.artefact.folders import replacing
from xlac.cache.fingerprint import version_of
from xlac.driver import Lowered
from xlac.model import Model
from xlac.support.failures import FACT, checks_of
from xlac.support.file_kinds import SAVED_MODEL, is_saved_model
from xlac.support.gc_pause import paused
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import Array
from xlac_sdk.host import manifest, records, stopping
from xlac_sdk.host.manifest import Manifest, Memory, Provenance, Size, TensorFacts
from xlac_sdk.host.manifest_entries import EntriesFacts
from xlac_sdk.host.package import Package, Packaging, ProcessorVariant
from xlac_sdk.host.ranks.facts import RanksFacts
from xlac_sdk.host.ranks.parts import RankParts
from xlac_sdk.host.state_sizes import sizes_of_state
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.programs.results import Results
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class BuildSource:
    """The sources of an artefact, by hash, taken before compiling, and the build's options."""

    model: Model
    spec: str
    weights: str
    options: Mapping[str, Any]

    @staticmethod
    def of(model: Model, spec: Path, options: Mapping[str, Any]) -> BuildSource:
        """The hashes of a model's spec and weights as they are now."""
        # of a SavedModel, the file that holds its program
        file = spec / SAVED_MODEL if is_saved_model(spec) else spec
        return BuildSource(model, manifest.file_hash(file), weights_hash(model.weights), options)


def write(
    variants: Sequence[Lowered],
    backend: Backend,
    folder: Path,
    wanted: Packaging,
    source: BuildSource,
    unchecked: Lowered | None = None,
    ranks: RankParts | None = None,
) -> list[Path]:
    """Builds into `folder`, which is created, or replaced when an earlier build made it; the
    manifest is written last.

    Several variants are one model for several processors. `unchecked` is a checked program without
    its checks, for a backend whose packages contain both; `ranks` those that run the program
    together. Returns the files. Nothing is left behind when the build fails or is interrupted, and
    files that others put into the folder stay (`folders.py`). Raises SourceError for a folder with
    other content, and for weights that changed since `source` was made.
    """
    checkpoint("the artefact")
    with replacing(folder) as temporary:
        if wanted.forms:
            variants, plain = recorded(variants, unchecked) if backend.records else (variants, None)
            package = backend.package(
                [ProcessorVariant(v.program, v.target, plain, ranks) for v in variants],
                wanted,
                temporary,
            )
        else:
            package = _plain(variants[0], backend, temporary)
        if weights_hash(source.model.weights) != source.weights:
            problem = "the model's weights changed while it was being built"
            raise SourceError(
                Diagnostic(
                    "XL3015",
                    problem,
                    hint="build it again when nobody writes to the file of weights",
                )
            )
        facts = describe(variants, backend, wanted, package, source, temporary, ranks)
        (temporary / manifest.NAME).write_text(facts.text(), encoding="utf-8")
        names = sorted(p.relative_to(temporary) for p in temporary.rglob("*") if p.is_file())
    return [folder / name for name in names]


def recorded(
    variants: Sequence[Lowered], unchecked: Lowered | None
) -> tuple[Sequence[Lowered], Program | None]:
    """Checked programs with their record as state, for the C API, and the unchecked program that a
    package may contain too.
    """
    checks, plain = checks_of(variants[0].program.facts), unchecked.program if unchecked else None
    if plain is not None and plain.entries is not None:  # its record is already in the state
        return [_with_arena(v, plain.arena_bytes) for v in variants], plain
    if not checks:
        return variants, None
    programs = records.inside(
        [_without_table(v.program) for v in variants],
        [check.text for check in checks],
        plain.arena_bytes if plain else 0,
    )
    return [
        replace(v, program=program) for v, program in zip(variants, programs, strict=True)
    ], plain


def _without_table(program: Program) -> Program:
    """A program without the table of its checks, which is for one whose record is an output."""
    return replace(program, facts={n: fact for n, fact in program.facts.items() if n != FACT})


def _with_arena(lowered: Lowered, least: int) -> Lowered:
    """A program whose arena has at least `least` bytes."""
    program = lowered.program
    return replace(lowered, program=replace(program, arena_bytes=max(program.arena_bytes, least)))


def _plain(lowered: Lowered, backend: Backend, temporary: Path) -> Package:
    """The sources, the backend's build of them, and the program description to load it with: for a
    backend without package formats.
    """
    with paused():
        sources = backend.emit(lowered.program, lowered.target)
    library = (
        ""
        if backend.text_only
        else backend.build(sources, temporary).relative_to(temporary).as_posix()
    )
    for name, text in sources.items():
        if not (temporary / name).exists():
            (temporary / name).write_text(text, encoding="utf-8")
    if library:
        portable.write(temporary, lowered.program, lowered.target)
    return Package(library)


def describe(
    variants: Sequence[Lowered],
    backend: Backend,
    wanted: Packaging,
    package: Package,
    source: BuildSource,
    temporary: Path,
    ranks: RankParts | None = None,
) -> Manifest:
    """The manifest of what is in the folder `temporary`."""
    programs = [v.program for v in variants]
    first = programs[0]
    entries, state_sizes = EntriesFacts.of(first), sizes_of_state(first)
    results = Results.facts(first.facts)
    which = 3 if state_sizes or results else 2 if ranks else 1 if entries else 0
    arena, state = max(p.arena_bytes for p in programs), max(p.state_bytes for p in programs)
    constants = max(sum(s.nbytes for s in p.slots if s.role is Role.CONSTANT) for p in programs)
    return Manifest(
        format=manifest.FORMATS[which],
        name=first.name,
        target=backend.name,
        forms=wanted.forms,
        library=package.library,
        weights=wanted.weights,
        weights_file=package.weights,
        needs=package.needs,
        inputs=tuple(map(TensorFacts.of, first.inputs)),
        outputs=tuple(map(TensorFacts.of, first.outputs)),
        sizes=tuple(map(Size.of, first.sizes)),
        variants=tuple(
            {symbol.name: value for symbol, value in case.sizes} for case in first.cases
        ),
        memory=Memory(arena=arena, state=state, weights=constants, peak=arena + state + constants),
        kernels=max(len(p.kernels) for p in programs),
        flops=first.work.flops,
        long=any(map(stopping.may_run_long, programs)),
        entries=entries,
        ranks=RanksFacts.of(ranks),
        state_sizes=state_sizes,
        results=results,
        provenance=Provenance(
            xlac=version("xlac"),
            backend=version_of(backend),
            spec=source.spec,
            weights=source.weights,
            machines=tuple(_machine(v.target) for v in variants),
            options=dict(source.options),
        ),
        files={
            p.relative_to(temporary).as_posix(): manifest.file_hash(p)
            for p in sorted(temporary.rglob("*"))
            if p.is_file()
        },
    )


def _machine(target: Target) -> dict[str, Any]:
    """Identifies a machine, with the facts that schedules were chosen by."""
    hardware = target.hardware
    return {**target.machine, "hardware": hardware.to_json(), "hardware_digest": hardware.digest}


def weights_hash(weights: Mapping[str, Array]) -> str:
    """SHA-256 over the names, types and data of a model's weights, in order of name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        digest.update(f"{name}\0{array.dtype}{list(array.shape)}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
