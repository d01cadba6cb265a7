"""Arrays for calls: what `xlac run --input x=@x.npy` and `--inputs all.npz` read."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
from harness.target import NUMBERS, Target

from xlac.cli.arrays import load_npy, load_npz

DTYPES = (
    b"'<f4'",
    b"'|O'",
    b"'>i8'",
    b"'|V1000000000000'",
    b"[('a','<f4')]",
    b"'<U99999999'",
    b"'|S0'",
    b"'<m8'",
    b"None",
)


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "x.npy"
        file.write_bytes(data)
        if data.startswith(b"PK"):
            load_npz(file)
        else:
            load_npy(file, "x")


def seeds() -> Iterator[bytes]:
    for array in (
        np.ones((2, 3), np.float32),
        np.zeros((), np.int64),
        np.zeros((0, 4), bool),
        np.asfortranarray(np.ones((2, 3))),
    ):
        made = io.BytesIO()
        np.save(made, array)
        yield made.getvalue()
    for write in (np.savez, np.savez_compressed):
        made = io.BytesIO()
        write(made, x=np.ones(3, np.float32), y=np.zeros((2, 2)))
        yield made.getvalue()


def mutate(data: bytes, random: Random) -> bytes | None:
    """Another shape or type in a header, of the same length where that is possible."""
    found = re.search(rb"'descr': (.*?), 'fortran_order': \w+, 'shape': \((.*?)\)", data)
    if found is None:
        return None
    field = random.choice((1, 2))
    new = (
        random.choice(DTYPES)
        if field == 1
        else b", ".join(str(random.choice(NUMBERS)).encode() for _ in range(random.randrange(4)))
    )
    spaces = data[found.end() :].find(b"\n")
    grown = len(new) - (found.end(field) - found.start(field))
    rest = data[found.end(field) :]
    if 0 < grown <= spaces:
        rest = rest.replace(b" " * grown + b"\n", b"\n", 1)
    return data[: found.start(field)] + new + rest


TARGET = Target(
    run,
    seeds,
    mutate,
    words=(b"'descr'", b"'shape'", b"'fortran_order'", b"\x93NUMPY\x01\x00", b"PK\x03\x04"),
)
