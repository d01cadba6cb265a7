"""Whole compilations on disk: a model file that was compiled before is loaded without reading the
model.

`store.py` keeps code by the source that it was compiled from, so a model must be lowered before it
is found there. Here a key of the request (the file, sizes, parameters, target, machine, and the
compiler itself) names an entry that lists the files that the model was read from; that key and the
state of those files (small ones by content, large ones by size and times) name the entry of the
program: what a call needs to know of it, the constants, and the key of the code's entry. So one key
never stands for two programs, and a program compiled while a file changed is not kept. A model with
open sizes is read first, and then has an entry for the program of each set of them, or one for all.

`api.py` asks here before it imports anything of the compiler.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from xlac.cache.fingerprint import compiler
from xlac.cache.record import program_of, record_text
from xlac.cache.slots import write_constants
from xlac.cache.store import Cache
from xlac.options import CompileOptions
from xlac.settings import settings
from xlac.support.dependencies import Files, content, unchanged
from xlac.support.digest import digest
from xlac.support.measured_facts import machine
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.source import XlacError
from xlac_sdk.target import Target

if TYPE_CHECKING:  # importing these takes longer than what is done here
    from pathlib import Path

SOURCES, PROGRAM, CONSTANTS = "sources.json", "program.json", "constants.bin"
SHARE = 4  # an entry takes at most 1/SHARE of the cache


class Kept(NamedTuple):
    """A program loaded from the cache, its target, and its code; `artifact` is the place of the
    code, None where the program was revived without it.
    """

    program: Program
    target: Target
    executable: Executable
    artifact: str | None = None


class CompilationEntry(NamedTuple):
    """The place of one compilation in the cache; it may be empty."""

    cache: Cache
    key: str
    backend: Backend

    def load(self, copy: bool = False) -> Kept | None:
        """The program for the present state of the files, if it is in the cache; with `copy` its
        constants are read instead of mapped.
        """
        try:
            listed = [(name, content(name)) for name in self._listed()]
        except (OSError, TypeError):  # a file is gone, or nothing is listed
            return None
        return load(self.cache, self._with(listed).key, self.backend, copy)

    def keep(self, program: Program, target: Target, artifact: Path | None, files: Files) -> None:
        """Stores a program made from `files`, unless one of them changed meanwhile. `artifact` is
        its code, None where that is not in the cache.
        """
        if not unchanged(files):
            return
        names = sorted(map(str, files))
        contents = {str(file): before.content for file, before in files.items() if before}
        place = self._with((name, contents[name]) for name in names)
        if artifact is None or not place._keep(program, target, artifact, files):
            return
        text = json.dumps(names)

        def write(folder: Path) -> Path:
            (folder / SOURCES).write_text(text, encoding="utf-8")
            return folder / SOURCES

        self.cache.keep(self.key, program.name, self.backend, write, anew=self._listed() != names)

    def _keep(self, program: Program, target: Target, artifact: Path, files: Files) -> bool:
        """Stores a program at this place. Returns False where that is impossible: its code is not
        in the cache, or loading it needs its steps.
        """
        cache, backend = self.cache, self.backend
        if artifact.parents[2] != cache.folder:
            return False
        constants = [slot for slot in program.slots if slot.role is Role.CONSTANT]
        if sum(slot.nbytes for slot in constants) > cache.limit // SHARE:
            return False
        text = record_text(program, target, artifact.parent.name, backend)
        if text is None:
            return False

        def write(folder: Path) -> Path:
            (folder / PROGRAM).write_text(text, encoding="utf-8")
            write_constants(folder / CONSTANTS, program, constants)
            if not unchanged(files):  # a file changed, and the entry may mix two versions
                raise OSError("a file was written to while its weights were kept")
            backend.settle(artifact, program, target, folder)
            return folder / PROGRAM

        return cache.keep(self.key, program.name, backend, write) is not None

    def _with(self, files: Iterable[tuple[str, list[Any]]]) -> CompilationEntry:
        """The entry of the program for these files."""
        return self._replace(key=digest(self.key, json.dumps(list(files))))

    def _listed(self) -> Any:
        """The names of files that the entry of the request lists."""
        path = self.cache.find(self.key)
        try:
            with open(path or "", encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None


def entry(
    source: str | os.PathLike[str], target: str, options: CompileOptions
) -> CompilationEntry | None:
    """The cache's entry for a request; None without a cache, or where the source cannot be cached.
    Raises SourceError for an unknown target, and for invalid options.
    """
    backend, now = find(target), settings()
    if now.cache is None:
        return None
    key = question(source, backend, options)
    return (
        None if key is None else CompilationEntry(Cache(now.cache, now.cache_bytes), key, backend)
    )


def question(
    source: str | os.PathLike[str], backend: Backend, options: CompileOptions
) -> str | None:
    """The key of a request; None where it has none (an unreadable file, an array)."""
    try:
        asked = {
            "source": os.path.abspath(source),
            "content": content(source),
            **options.to_json(),
            "target": backend.name,
            "request": asdict(options.request),
            "compiler": compiler(backend),
            "machine": machine(),
        }
        return digest(json.dumps(asked, sort_keys=True))
    except (OSError, TypeError, ValueError):
        return None


def load(cache: Cache, key: str, backend: Backend, copy: bool = False) -> Kept | None:
    """The compilation with a key, if it is in the cache."""
    place = cache.find(key)
    if place is None:
        return None
    folder = os.path.dirname(place)
    try:
        with open(place, encoding="utf-8") as file:
            record = json.load(file)
        program = program_of(record, os.path.join(folder, CONSTANTS), copy)
        target, code = Target.from_json(record["built_for"]), str(record["code"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    artifact = cache.find(code)
    executable = backend.revive(folder, program, target) or _loaded(
        artifact, backend, program, target
    )
    return None if executable is None else Kept(program, target, executable, artifact)


def _loaded(
    artifact: str | None, backend: Backend, program: Program, target: Target
) -> Executable | None:
    """The executable that the backend loads from an artefact; None where that is gone."""
    from pathlib import Path

    try:
        return None if artifact is None else backend.load(Path(artifact), program, target)
    except (OSError, XlacError):  # another process has removed it since
        return None
