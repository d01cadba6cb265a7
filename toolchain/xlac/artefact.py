"""What `xlac build` leaves behind: the backend's files, the constants and a manifest, all or nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from xlac.collection import paused
from xlac.compiler import Lowered
from xlac_sdk.backend import Backend
from xlac_sdk.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"


def write(lowered: Lowered, backend: Backend, folder: Path) -> list[Path]:
    """Builds into `folder`, which is created, or replaced when an earlier build made it.

    Returns the files. Nothing is left behind when the build fails or is interrupted. Raises SourceError for a
    folder with other content.
    """
    program = lowered.program
    with replacing(folder) as made:
        with paused():
            sources = backend.emit(program, lowered.target)
        artifact = "" if backend.text_only else backend.build(sources, made).relative_to(made).as_posix()
        for name, text in sources.items():
            if not (made / name).exists():
                (made / name).write_text(text, encoding="utf-8")
        if not backend.text_only:
            _write_weights(program, made / WEIGHTS)
        facts = manifest(lowered, backend.name, artifact or next(iter(sources)), made)
        (made / MANIFEST).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        names = sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
    return [folder / name for name in names]


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A temporary sibling that becomes `folder` when the block succeeds and vanishes when it does not."""
    if folder.exists() and not _ours(folder):
        problem = f"'{folder}' exists and is not a folder that xlac build made"
        raise SourceError(Diagnostic("XL3010", problem, hint="choose another folder with -o, or remove it"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield made
        made.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.rename(old / "was")
            made.rename(folder)
            shutil.rmtree(old)
        else:
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _ours(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MANIFEST).is_file() or not any(folder.iterdir()))


def manifest(lowered: Lowered, backend: str, artifact: str, folder: Path) -> dict[str, Any]:
    """Everything a person or a program wants to know of an artefact before using it."""
    program = lowered.program
    return {
        "format": 1,
        "name": program.name,
        "xlac": version("xlac"),
        "target": backend,
        "machine": lowered.target.machine,
        "artifact": artifact,
        "inputs": [_slot(s) for s in program.inputs],
        "outputs": [_slot(s) for s in program.outputs],
        "constants": [
            {**_slot(s), "symbol": s.symbol} for s in program.slots if s.role is Role.CONSTANT
        ],
        "arena_bytes": program.arena_bytes,
        "state_bytes": program.state_bytes,
        "kernels": len(program.kernels),
        "flops": program_flops(program),
        "sha256": {
            p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        },
    }  # fmt: skip


def program_flops(program: Program) -> int:
    """Arithmetic of one call; loops of unknown length count once."""
    from xlac_sdk.program import Branch, Launch, Repeat, Step, While

    def count(steps: tuple[Step, ...]) -> int:
        total = 0
        for step in steps:
            match step:
                case Launch(kernel=kernel):
                    total += kernel.work.flops
                case Repeat(count=times, body=body):
                    total += times * count(body)
                case While(condition=condition, body=body):
                    total += count(condition) + count(body)
                case Branch(branches=branches):
                    total += max(map(count, branches), default=0)
        return total

    return count(program.steps)


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "name": slot.name, "dtype": str(slot.dtype), "shape": list(slot.shape),
        "bytes": slot.nbytes, "align": slot.align,
    }  # fmt: skip


_SAFETENSORS = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "bool": "BOOL"}


def _write_weights(program: Program, file: Path) -> None:
    """The constants by symbol, as safetensors."""
    slots = [s for s in program.slots if s.role is Role.CONSTANT]
    header: dict[str, Any] = {}
    offset = 0
    for s in slots:
        dtype = _SAFETENSORS.get(str(s.dtype), str(s.dtype).upper())
        header[s.symbol] = {"dtype": dtype, "shape": list(s.shape), "data_offsets": [offset, offset + s.nbytes]}
        offset += s.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for s in slots:
            out.write(np.ascontiguousarray(program.constants[s.symbol]).reshape(-1).view(np.uint8).data)
