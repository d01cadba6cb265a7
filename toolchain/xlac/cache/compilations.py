"""Whole compilations on disk: a model file that was compiled before is loaded without being read as
a model.

`cache.py` keeps code by the text that it was compiled from, so lowering a model to that text comes
first. Here what the user asked (the file, sizes, parameters, target and machine, and the compiler
itself) names an entry that lists the files that the model was read from; that and what those files
hold (small ones by content, large ones by size and times) name the entry of the program: what a
call needs to know of it, the constants, and the name of the code's entry. So one name never stands
for two programs, and what was compiled while a file changed is not kept. A model with open sizes is
read, and then has an entry for the program of each set of them, or one for all.

This module is the public `xlac.compile`, and imports nothing of the compiler unless there is
something to compile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from xlac.cache.fingerprint import compiler, machine
from xlac.cache.slots import constants_of, slot_of, told_of, write_constants
from xlac.cache.store import Cache
from xlac.runtime.compiled import Compiled
from xlac.settings import settings
from xlac.support.dependencies import Files, content, copying, note, noted, steady, unchanged
from xlac.support.digest import digest
from xlac.support.failures import Asked, kinds
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.host.registry import find
from xlac_sdk.programs.dims import Symbol
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.source import XlacError
from xlac_sdk.target import Request, Target

if TYPE_CHECKING:  # importing these takes longer than what is done here
    from pathlib import Path

    from xlac.runtime.specialization import Specializing
    from xlac_sdk.host.mapped import MappedFile

SOURCES, PROGRAM, CONSTANTS = "sources.json", "program.json", "constants.bin"
SHARE = 4  # an entry takes at most this part of the cache


def compile(
    source: object,
    target: str = "cpu",
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    sizes: Literal["specialize", "symbolic"] = "specialize",
    variants: Sequence[Mapping[str, int]] = (),
    threads: int | None = None,
    cpu: str = "",
    triple: str = "",
    arch: str = "",
    precision: str = "",
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
    checked: Asked = None,
    copy_weights: bool = False,
) -> Compiled | Specializing:
    """Compiles a model for a target: a file (a spec, .onnx, .mlir), an xlac.Model or an
    onnx.ModelProto.

    `dims` gives symbolic sizes, `params` overrides build-time constants, `threads` defaults to
    XLAC_THREADS or
    1. A model with sizes left open is compiled for each set of them when first called with it or,
    with `sizes`
    "symbolic", once for all within their bounds: then `variants` are sizes (`{"batch": 1}`) that
    this one program has
    code of its own for. One whose sizes depend on values of its inputs is compiled for each set of
    those.
    `precision` is "default" or "fast" whatever the model says, "" as it says: docs/SPEC.md has what
    fast permits.
    With `checked` the program finds indices out of range, NaN that appears, integers divided by
    zero and sizes that do not
    fit, and a call raises `xlac.CheckFailed`, which names the node: True, kinds of checks
    ("bounds,infinity"; "all"), or
    None for what XLAC_CHECKED says.
    One compilation (each, of a model that has several) takes at most `max_compile_seconds` and,
    beside what the process has,
    `max_compile_memory` bytes, or LimitError is raised; what is kept does not depend on these.
    Weights that are in files are mapped; with `copy_weights` they are read, and the files may be
    written to then.
    Raises SourceError, UnsupportedError or LimitError.

    A file that was compiled before, and has not changed, is taken from the cache on disk; of one
    whose sizes are open, the program of each set of them is.
    """
    place, looked = None, kinds(checked)
    request = Request(cpu=cpu, triple=triple, arch=arch, threads=threads or settings().threads)
    if isinstance(source, str | os.PathLike):
        place = entry(source, target, request, dims, params, sizes, variants, precision, looked)
    kept = place.load(copy_weights) if place else None
    if kept is not None:
        return kept
    from xlac.support.gc_pause import paused

    with noted() as files, copying(copy_weights), steady() as maps, paused():
        from pathlib import Path

        from xlac.driver import compile as compile_now

        if place and isinstance(source, str | os.PathLike):
            note(Path(source))
        made = compile_now(
            source,
            target,
            dims=dims,
            params=params,
            sizes=sizes,
            variants=variants,
            threads=threads,
            cpu=cpu,
            triple=triple,
            arch=arch,
            precision=precision,
            checked=looked,
            max_compile_seconds=max_compile_seconds,
            max_compile_memory=max_compile_memory,
        )
    if isinstance(made, Compiled):
        if place:
            place.keep(made, files)
        return made

    def asked(found: Mapping[str, int]) -> Entry | None:
        if not place or not isinstance(source, str | os.PathLike):
            return None
        return entry(
            source,
            target,
            request,
            {**(dims or {}), **found},
            params,
            precision=precision,
            checked=looked,
        )

    return keeping(made, files, asked, maps, copy_weights)


def keeping(
    made: Specializing,
    files: Files,
    asked: Callable[[Mapping[str, int]], Entry | None],
    maps: Sequence[MappedFile],
    copy: bool,
) -> Specializing:
    """The same, its programs taken from the cache and kept there: those that `asked` has a place
    for, given their sizes.

    Programs that values of inputs decide have none, and nothing has when `files` are no longer what
    the model was read from. Weights in `maps`, files that the model has mapped, have to be what
    they were.
    """

    def compile_for(found: Mapping[str, int], values: Mapping[str, Any]) -> Compiled:
        place = asked(found) if not values and unchanged(files) else None
        kept = place.load(copy) if place else None
        if kept is None:
            with noted() as more, copying(copy), steady():
                kept = made.compile_for(found, values)
            for file in maps:
                file.check()
            if place:
                place.keep(kept, {**more, **files})
        return kept

    return type(made)(made.interface, compile_for)


class Entry(NamedTuple):
    """The place of one compilation in the cache, whether it is there or not."""

    cache: Cache
    key: str
    backend: Backend

    def load(self, copy: bool = False) -> Compiled | None:
        """The program of the files as they are now, if it is there; with `copy` its constants are
        read and not mapped.
        """
        try:
            listed = [(name, content(name)) for name in self._listed()]
        except (OSError, TypeError):  # a file is gone; nothing is listed
            return None
        return load(self.cache, self._program(listed), self.backend, copy)

    def keep(self, made: Compiled, files: Files) -> None:
        """Keeps what was made of `files`, unless one of them changed meanwhile."""
        if not unchanged(files):
            return
        names = sorted(map(str, files))
        told = {str(file): before.content for file, before in files.items() if before}
        if not keep(
            self.cache,
            self._program((name, told[name]) for name in names),
            self.backend,
            made,
            files,
        ):
            return
        text = json.dumps(names)

        def write(folder: Path) -> Path:
            (folder / SOURCES).write_text(text, encoding="utf-8")
            return folder / SOURCES

        self.cache.keep(
            self.key, made.program.name, self.backend, write, anew=self._listed() != names
        )

    def _program(self, files: Iterable[tuple[str, list[Any]]]) -> str:
        """The name of the program's entry."""
        return digest(self.key, json.dumps(list(files)))

    def _listed(self) -> Any:
        """The files that the entry of the question lists now."""
        found = self.cache.find(self.key)
        try:
            with open(found or "", encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None


def entry(
    source: str | os.PathLike[str],
    target: str,
    request: Request,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    sizes: str = "specialize",
    variants: Sequence[Mapping[str, int]] = (),
    precision: str = "",
    checked: Sequence[str] = (),
) -> Entry | None:
    """The place for what a user asks; None when nothing is kept, or this cannot be. Raises
    SourceError for an unknown target.
    """
    backend, now = find(target), settings()
    if now.cache is None:
        return None
    key = question(
        source, backend, request, dims or {}, params or {}, sizes, variants, precision, checked
    )
    return None if key is None else Entry(Cache(now.cache, now.cache_bytes), key, backend)


def question(
    source: str | os.PathLike[str],
    backend: Backend,
    request: Request,
    dims: Mapping[str, Any],
    params: Mapping[str, Any],
    sizes: str,
    variants: Sequence[Mapping[str, int]] = (),
    precision: str = "",
    checked: Sequence[str] = (),
) -> str | None:
    """The name of the entry for what a user asks; None for what has no name (a file that cannot be
    read, an array).
    """
    try:
        asked = {
            "source": os.path.abspath(source), "content": content(source), "dims": dict(dims), "params": dict(params),
            "sizes": sizes, "precision": precision, "checked": list(checked), "variants": [dict(one) for one in variants], "target": backend.name, "request": asdict(request), "compiler": compiler(backend), "machine": machine(),
        }  # fmt: skip
        return digest(json.dumps(asked, sort_keys=True))
    except (OSError, TypeError, ValueError):
        return None


def keep(cache: Cache, key: str, backend: Backend, made: Compiled, files: Files) -> bool:
    """Puts a compilation of `files` into the cache, where it can be: its code is there, and it
    needs no steps to be loaded.
    """
    program, summary = made.whole, backend.summary(made.whole)
    artifact = made.artifact
    if artifact is None or summary is None or artifact.parents[2] != cache.folder:
        return False
    constants = [slot for slot in program.slots if slot.role is Role.CONSTANT]
    if sum(slot.nbytes for slot in constants) > cache.limit // SHARE:
        return False
    work = program.work
    facts = {**program.facts, "flops": work.flops, "bytes": work.bytes, **summary}
    try:
        told: dict[str, Any] = {
            "name": program.name, "slots": [told_of(slot) for slot in program.slots],
            "inputs": [program.slots.index(s) for s in program.inputs],
            "outputs": [program.slots.index(s) for s in program.outputs],
            "arena_bytes": program.arena_bytes, "state_bytes": program.state_bytes, "facts": facts,
            "sizes": [asdict(symbol) for symbol in program.sizes],
            "code": artifact.parent.name, "built_for": made.target.told(),
        }  # fmt: skip
        text = json.dumps(told)
    except (TypeError, ValueError):
        return False
    if json.loads(text)["facts"] != facts:
        return False  # something in them is not what JSON makes of it

    def write(folder: Path) -> Path:
        (folder / PROGRAM).write_text(text, encoding="utf-8")
        write_constants(folder / CONSTANTS, program, constants)
        if not unchanged(files):  # what was written may be of two versions
            raise OSError("a file was written to while its weights were kept")
        backend.settle(artifact, program, made.target, folder)
        return folder / PROGRAM

    return cache.keep(key, program.name, backend, write) is not None


def load(cache: Cache, key: str, backend: Backend, copy: bool = False) -> Compiled | None:
    """The compilation of a name, if it is there."""
    place = cache.find(key)
    if place is None:
        return None
    folder = os.path.dirname(place)
    try:
        with open(place, encoding="utf-8") as file:
            told = json.load(file)
        symbols = [Symbol(**size) for size in told["sizes"]]
        slots = [slot_of(entry, symbols) for entry in told["slots"]]
        program = Program(
            name=told["name"],
            inputs=tuple(slots[i] for i in told["inputs"]),
            outputs=tuple(slots[i] for i in told["outputs"]),
            slots=tuple(slots),
            steps=(),
            constants=constants_of(os.path.join(folder, CONSTANTS), slots, copy),
            arena_bytes=told["arena_bytes"],
            state_bytes=told["state_bytes"],
            facts=dict(told["facts"]),
            sizes=tuple(symbols),
        )
        target, code = Target.of(told["built_for"]), str(told["code"])
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    executable = backend.revive(folder, program, target) or _loaded(
        cache.find(code), backend, program, target
    )
    return None if executable is None else Compiled(program, target, executable)


def _loaded(
    artifact: str | None, backend: Backend, program: Program, target: Target
) -> Executable | None:
    """What the backend loads the code as; None where that is no longer there."""
    from pathlib import Path

    try:
        return None if artifact is None else backend.load(Path(artifact), program, target)
    except (OSError, XlacError):  # another process has thrown it away since
        return None
