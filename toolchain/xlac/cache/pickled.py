"""Compiled models as pickles: the code, the constants and what a call needs to know, as files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.cache.record import program_of, record_text
from xlac.cache.seals import DAMAGED, ENTRY, verified
from xlac.cache.slots import write_constants
from xlac.support.unpacked import remove_with, unpacked
from xlac_sdk.backend import Backend, Executable
from xlac_sdk.host.capi.opened import check
from xlac_sdk.host.registry import find
from xlac_sdk.programs.exchange_checks import MESH
from xlac_sdk.programs.host_calls import host_calls
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError
from xlac_sdk.target import Target

PROGRAM, CONSTANTS, CODE = "program.json", "constants.bin", "code"
HINT = "xlac build writes an artefact of it, and what xlac.load gives can be pickled"


def files_of(program: Program, target: Target, artifact: Path | None) -> dict[str, bytes]:
    """The files of a compiled program by name; `artifact` is its code, None where that was not
    kept: it is built again. Raises UnsupportedError for a program that runs in this process alone.
    """
    backend = find(target.name)
    calls = bool(program.steps) and bool(host_calls(program.every_step))
    whats = {"ranks": program.facts.get(MESH), "entries": program.entries, "calls of Python": calls}
    for what, present in whats.items():
        if present:
            raise _refused(f"'{program.name}' has {what}")
    with tempfile.TemporaryDirectory(prefix="xlac-", ignore_cleanup_errors=True) as room:
        folder = Path(room)
        own = _code(program, target, artifact, backend, folder / CODE)
        name = own.relative_to(folder / CODE).as_posix()
        text = record_text(program, target, name, backend)
        if text is None:
            raise _refused(f"target '{target.name}' needs the steps of '{program.name}'")
        (folder / PROGRAM).write_text(text, encoding="utf-8")
        constants = [slot for slot in program.slots if slot.role is Role.CONSTANT]
        write_constants(folder / CONSTANTS, program, constants)
        backend.settle(own, program, target, folder)
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _code(
    program: Program, target: Target, artifact: Path | None, backend: Backend, folder: Path
) -> Path:
    """The code of a program in a folder of its own."""
    if artifact is not None and _copied(artifact.parent, folder):
        return folder / artifact.name
    if not program.steps:  # it was loaded from the cache
        problem = f"the code of '{program.name}' is no longer in the cache, or is damaged there"
        raise UnavailableError(Diagnostic("XL5006", problem, hint="compile it again"))
    with tempfile.TemporaryDirectory(prefix="xlac-", ignore_cleanup_errors=True) as room:
        built = backend.build(backend.emit(program, target), Path(room))
        shutil.copytree(room, folder)
        return folder / built.relative_to(room)


def _copied(entry: Path, folder: Path) -> bool:
    """Copies an entry of the cache, or the code of what was unpickled. Whether it is there, and as
    it was written: other processes may remove it meanwhile.
    """
    try:
        shutil.copytree(entry, folder)
        if (folder / ENTRY).exists():
            verified(str(folder))
    except (OSError, *DAMAGED):
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


def _refused(problem: str) -> UnsupportedError:
    return UnsupportedError(Diagnostic("XL5006", f"{problem}: it cannot be pickled", hint=HINT))


def opened(files: Mapping[str, bytes]) -> tuple[Program, Target, Executable, Path]:
    """What was pickled: the program, its target, its code loaded, and where the code lies, in a
    folder for `remove_code_with`. Raises UnsupportedError where this machine cannot run it.
    """
    record: dict[str, Any] = json.loads(files[PROGRAM])
    target = Target.from_json(record["built_for"])
    check((target.machine,))
    backend = find(target.name)
    with unpacked(files) as folder:
        program = program_of(record, str(folder / CONSTANTS), True)
        code = folder / CODE / record["code"]
        executable = backend.revive(str(folder), program, target)
        if executable is None:
            executable = backend.load(code, program, target)
    return program, target, executable, code


def remove_code_with(owner: object, code: Path) -> None:
    """Removes the folder of what was pickled when its owner is gone."""
    remove_with(owner, code.parents[1])
