"""Entries of the cache, their own hashes put right: what a warm start reads. Whatever they say, it
is a miss or a program.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from harness.target import ROOT, Target
from inputs.manifests import mutate as _mutated

import xlac
from xlac.cache import compilations, seals
from xlac.cache.seals import ENTRY
from xlac.cache.store import Cache
from xlac.support.digest import digest
from xlac_reference import BACKEND
from xlac_sdk.source import XlacError

KEY = "ab" * 32


def run(data: bytes) -> None:
    """The first line is the entry's text, the rest the program's."""
    text, _, program = data.partition(b"\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place = Path(folder) / KEY[:2] / KEY
        place.mkdir(parents=True)
        (place / compilations.PROGRAM).write_bytes(program)
        (place / compilations.CONSTANTS).write_bytes(bytes(1 << 10))
        try:
            told = json.loads(text)
            # right hashes of what is there
            if isinstance(told, dict) and isinstance(told.get("files"), dict):
                told["files"] = {
                    name: _seal(place, name, value) for name, value in told["files"].items()
                }
            signed = seals.signed(told)
        except (ValueError, RecursionError):
            signed = f"{digest(text)}\n" + text.decode(errors="replace")
        (place / ENTRY).write_text(signed, errors="replace")
        cache = Cache(folder, 1 << 20)
        try:
            list(cache.entries())
            assert compilations.load(cache, KEY, BACKEND) is None, "its code is not there"
            cache.find(KEY)
            cache.collect(0)
        except XlacError as error:
            raise AssertionError(f"a compilation would fail: {error}") from None


def _seal(place: Path, name: str, value: Any) -> Any:
    from xlac.cache.seals import seal

    return (
        seal(os.path.join(place, name))
        if name in (compilations.PROGRAM, compilations.CONSTANTS)
        else value
    )


@cache
def written() -> list[bytes]:
    """The entries of a few programs."""
    found = []
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        mock.patch.dict(os.environ, {"XLAC_CACHE": folder}),
    ):
        xlac.compile(ROOT / "specs" / "softmax.yaml")
        xlac.compile(ROOT / "specs" / "digits.yaml", sizes="symbolic")
        for program in sorted(Path(folder).glob(f"??/*/{compilations.PROGRAM}")):
            told = {
                "program": "p",
                "backend": "cpu",
                "artifact": compilations.PROGRAM,
                "files": {compilations.PROGRAM: [], compilations.CONSTANTS: []},
            }
            found.append(json.dumps(told).encode() + b"\n" + program.read_bytes())
    return found


def seeds() -> Iterator[bytes]:
    yield from written()
    text, _, program = written()[0].partition(b"\n")
    told = json.loads(text)
    for other in (
        {**told, "artifact": "../x"},
        {**told, "files": 3},
        {**told, "files": {compilations.PROGRAM: [1, "x"], compilations.CONSTANTS: []}},
        {},
        [],
    ):
        yield json.dumps(other).encode() + b"\n" + program


def mutate(data: bytes, random: Random) -> bytes | None:
    """Another value somewhere in one of the two."""
    text, _, program = data.partition(b"\n")
    if random.random() < 0.3:
        changed = _mutated(text, random)
        return None if changed is None else changed + b"\n" + program
    changed = _mutated(program, random)
    return None if changed is None else text + b"\n" + changed


TARGET = Target(
    run,
    seeds,
    mutate,
    words=(
        b'"slots"',
        b'"role"',
        b'"shape"',
        b'"sizes"',
        b'"facts"',
        b'"built_for"',
        b'"code"',
        b'"files"',
    ),
)
