"""Reads and validates the manifest of an artefact, before anything of it is loaded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from xlac_sdk.host.manifest_entries import ENTRIES
from xlac_sdk.host.manifest_facts import (
    Manifest,
    Memory,
    Provenance,
    Size,
    digest,
    file_or_folder,
    inside,
    place,
)
from xlac_sdk.host.manifest_tensors import EXTENT, TENSOR, TERMS, TensorFacts, extent
from xlac_sdk.host.ranks.facts import ranks_of
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.programs.results import Results
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support import schema
from xlac_sdk.support.files import regular

__all__ = [
    "CHUNK", "EXTENT", "FORMAT", "FORMATS", "LONGEST", "NAME", "TERMS", "Manifest", "Memory",
    "Provenance", "Size", "TensorFacts", "digest", "extent", "file_hash", "inside", "is_artefact",
    "listed", "place", "read",
]  # fmt: skip

NAME = "manifest.json"
# format 3 has entries, 4 ranks, 5 open sizes of a state and forms of results: where there are some
FORMATS = (2, 3, 4, 5)
FORMAT = FORMATS[-1]
LONGEST = 16 << 20  # bytes of a manifest
CHUNK = 1 << 20


_COUNT, _TEXT, _HASH = schema.count(), schema.text(), schema.text(r"[0-9a-f]{64}")
_NAME = schema.text(r"(?s).+")
_SIZE = schema.record(
    Size,
    {"name": _NAME, "min": _COUNT, "max": _COUNT, "opt": _COUNT, "multiple_of": schema.count(1)},
)
_MEMORY = schema.record(Memory, dict.fromkeys(("arena", "state", "weights", "peak"), _COUNT))
_PROVENANCE = schema.record(
    Provenance,
    {
        "xlac": _TEXT,
        "backend": _TEXT,
        "spec": _HASH,
        "weights": _HASH,
        "machines": schema.many(schema.table(_TEXT, schema.anything), least=1),
        "options": schema.table(_TEXT, schema.anything),
    },
)


def _results(value: Any, place: str) -> dict[str, Any]:
    """How outputs are given to callers of Python."""
    axis = schema.text(r"[0-9]{1,2}")
    extents = schema.table(_NAME, schema.table(axis, _NAME))
    checks = {"extents": extents, "forms": schema.table(_NAME, schema.anything)}
    found = schema.table(schema.text("|".join(checks)), schema.anything)(value, place)
    return {name: checks[name](one, f"{place}.{name}") for name, one in found.items()}


_MANIFEST = schema.record(
    Manifest,
    {
        "format": schema.count(FORMATS[0], FORMAT),
        "name": _NAME,
        "target": schema.text(r"[A-Za-z0-9_.-]+"),
        "forms": schema.many(schema.text(r"[a-z]+")),
        "library": file_or_folder,  # the return value of `Backend.build`
        "weights": schema.member(WeightsOrigin),
        "weights_file": place,
        "needs": schema.many(_NAME),
        "inputs": schema.many(TENSOR),
        "outputs": schema.many(TENSOR, least=1),
        "sizes": schema.many(_SIZE),
        "variants": schema.many(schema.table(_NAME, _COUNT)),
        "memory": _MEMORY,
        "kernels": _COUNT,
        "flops": schema.count(0, 1 << 100),
        "long": schema.boolean,
        "entries": ENTRIES,
        "ranks": ranks_of,
        "state_sizes": schema.table(_NAME, _TEXT),
        "results": _results,
        "provenance": _PROVENANCE,
        "files": schema.table(inside, _HASH),
    },
)


def _consistent(manifest: Manifest, folder: Path) -> None:
    """Raises ValueError where fields are inconsistent."""
    for kind, names in (
        ("size", [s.name for s in manifest.sizes]),
        ("tensor", [t.symbol for t in (*manifest.inputs, *manifest.outputs)]),
        ("input", [t.name for t in manifest.inputs]),
        ("output", [t.name for t in manifest.outputs]),
    ):
        if len(set(names)) < len(names):
            raise ValueError(f"two {kind}s have one name")
    for size in manifest.sizes:
        if not size.min <= size.opt <= size.max:
            raise ValueError(
                f"sizes.{size.name}: its bounds are {size.min} to {size.max}, and opt is {size.opt}"
            )
    for case in manifest.variants:
        if not case.keys() <= {size.name for size in manifest.sizes}:
            raise ValueError("variants: a variant has a size that the model does not have")
    if manifest.entries is not None:
        if manifest.format < FORMATS[1]:
            raise ValueError(f"entries: format {manifest.format} has none")
        manifest.entries.check(
            manifest.memory.state, {size.name: size.symbol for size in manifest.sizes}
        )
    if manifest.ranks is not None:
        if manifest.format < FORMATS[2]:
            raise ValueError(f"ranks: format {manifest.format} has none")
        manifest.ranks.check()
    for name in ("state_sizes", "results"):
        if getattr(manifest, name) and manifest.format < FORMATS[3]:
            raise ValueError(f"{name}: format {manifest.format} has none")
    if not manifest.state_sizes.keys() <= {size.name for size in manifest.sizes}:
        raise ValueError("state_sizes: a size that the model does not have")
    outputs = {tensor.name: tensor.shape for tensor in manifest.outputs}
    if results := Results.of(tuple(outputs), manifest.results):
        results.check(outputs)
    program = manifest.artefact(folder).program
    arrays = (*program.inputs, *program.outputs)
    for tensor, slot in zip((*manifest.inputs, *manifest.outputs), arrays, strict=True):
        if slot.nbytes != tensor.bytes:
            raise ValueError(
                f"'{tensor.name}' has {slot.nbytes} bytes by its shape, and {tensor.bytes} by the "
                "manifest"
            )
    memory = manifest.memory
    if memory.peak != memory.arena + memory.state + memory.weights:
        raise ValueError("memory.peak: not the sum of the others")
    if manifest.weights.inside and manifest.weights_file:
        raise ValueError("weights_file: the weights are in the code")
    if manifest.weights_file and manifest.weights_file not in manifest.files:
        raise ValueError(f"'{manifest.weights_file}' has no hash")
    library = manifest.library
    of_folder = library == "." or any(file.startswith(f"{library}/") for file in manifest.files)
    if library and library not in manifest.files and not of_folder:
        raise ValueError(f"'{library}' has no hash")


def is_artefact(folder: Path) -> bool:
    """Whether a folder looks like one that `xlac build` made."""
    return (folder / NAME).is_file()


def listed(folder: Path) -> dict[str, str] | None:
    """The files of an artefact with their hashes, from a manifest of any format; None where there
    is none, or it was changed.
    """
    try:
        facts = json.loads(regular(folder / NAME).read_text(encoding="utf-8"))
        if facts.pop("sha256") != digest(facts):
            return None
        return {inside(name, "files"): str(sha256) for name, sha256 in facts["files"].items()}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def read(folder: Path) -> Manifest:
    """The manifest of an artefact whose files are complete and unchanged.

    Raises SourceError for a folder that is not an artefact, and for one whose files are truncated
    or changed.
    """
    file = folder / NAME
    if not file.is_file():
        hint = "an artefact is a folder that xlac build made" if folder.exists() else ""
        raise SourceError(
            Diagnostic("XL3012", f"'{folder}' is not an artefact: it has no {NAME}", hint=hint)
        )
    manifest = _parsed(file)
    for name, wanted in manifest.files.items():
        try:
            actual = file_hash(folder / name)
        except OSError as error:
            raise _damaged(f"{folder / name}: {error.strerror}") from None
        if actual != wanted:
            raise _damaged(
                f"{folder / name} is not the file that xlac build wrote: its hash differs"
            )
    return manifest


def file_hash(file: Path) -> str:
    """SHA-256 of a file, read in pieces. Raises OSError for one that cannot be read or is not a
    regular file.
    """
    digest = hashlib.sha256()
    with regular(file).open("rb") as data:
        while piece := data.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _parsed(file: Path) -> Manifest:
    try:
        if file.stat().st_size > LONGEST:
            raise _damaged(f"{file} is larger than any manifest")
        facts = json.loads(regular(file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(f"{file} is cut off, or is not JSON") from None
    version = facts.get("format") if isinstance(facts, dict) else None
    if type(version) is not int or version not in FORMATS:
        known = f"{FORMATS[0]} to {FORMAT}"
        problem = f"{file} has format {str(version)[:40]}; this xlac reads formats {known}"
        raise SourceError(
            Diagnostic("XL3014", problem, hint="build it again, or use the xlac that made it")
        )
    stated = facts.pop("sha256", None)
    try:
        if stated != digest(facts):
            raise _damaged(f"{file} was changed after xlac build wrote it: its own hash differs")
        manifest: Manifest = _MANIFEST(facts, "")
        _consistent(manifest, file.parent)
        return manifest
    except (ValueError, RecursionError) as error:
        raise _damaged(f"{file}: {error}") from None


def _damaged(problem: str) -> SourceError:
    return SourceError(
        Diagnostic("XL3013", problem, hint="the artefact is damaged: remove it, and build it again")
    )
