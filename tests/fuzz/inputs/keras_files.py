"""Keras files: what `xlac check model.keras` and `model.h5` read. Seeds are files as Keras
wrote them.
"""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
from harness.target import NUMBERS, ROOT, Target

from xlac.frontends.keras import load
from xlac.ir.verify import verify
from xlac.spec.summary import summarize


def run(data: bytes) -> None:
    suffix = "keras" if data[:2] == b"PK" else "h5"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / f"model.{suffix}"
        file.write_bytes(data)
        model = load(file)
        verify(model.graph)
        summarize(model)


def seeds() -> Iterator[bytes]:
    sys.path.insert(0, str(ROOT / "tests" / "keras"))
    from keras_writer import EXPECTED, archived, names

    yield from (bytes(array) for array in EXPECTED.by_case["whole"].values())
    with np.load(ROOT / "tests" / "keras" / "keras2.npz") as recorded:
        for name in recorded.files:
            if name.endswith(("/h5", "/keras")):
                yield bytes(recorded[name])
    with tempfile.TemporaryDirectory() as folder:
        for name in names():
            file = Path(folder) / "model.keras"
            archived(name, file)
            yield file.read_bytes()


def mutate(data: bytes, random: Random) -> bytes | None:
    """A byte of an HDF5 file, or a number of a configuration, becomes an unpleasant one; checksums
    of archives are made to fit.
    """
    if data[:2] != b"PK":
        return _damaged(data, random)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            members = {name: held.read(name) for name in held.namelist()}
    except Exception:  # a mutation of a mutation
        return None
    if not members:
        return None
    name = random.choice(sorted(members))
    text = name.endswith("json")
    members[name] = _renumbered(members[name], random) if text else _damaged(members[name], random)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return made.getvalue()


def _damaged(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] = int(random.choice(NUMBERS)) & 0xFF
    return bytes(changed)


def _renumbered(data: bytes, random: Random) -> bytes:
    """Another number, word or bracket somewhere in a text."""
    places = [n for n, c in enumerate(data) if chr(c) in "0123456789"]
    if not places:
        return data
    at = random.choice(places)
    other = random.choice([*map(str, NUMBERS), "null", "[]", "{}", '"x"', "true", "1e400"])
    return data[:at] + other.encode() + data[at + 1 :]


TARGET = Target(
    run, seeds, mutate, words=(b"class_name", b"\x89HDF", b"__keras_tensor__"), needs=("h5py",)
)
