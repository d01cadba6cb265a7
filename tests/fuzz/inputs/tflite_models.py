"""TensorFlow Lite files: what `xlac check model.tflite` reads. Seeds are the models of the
operators' tests.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from harness.target import NUMBERS, ROOT, Target

from xlac.frontends.tflite import load
from xlac.ir.verify import verify
from xlac.spec.summary import summarize


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "model.tflite"
        file.write_bytes(data)
        model = load(file)
        verify(model.graph)
        summarize(model)


def seeds() -> Iterator[bytes]:
    sys.path.insert(0, str(ROOT / "tests" / "tflite"))
    from tflite_cases import cases

    yield from sorted((case.file() for case in cases()), key=len)


def mutate(data: bytes, random: Random) -> bytes | None:
    """A word or a byte of a file that is right becomes an unpleasant number."""
    if len(data) < 16:
        return None
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        number = int(random.choice(NUMBERS)) & 0xFFFFFFFF
        if random.random() < 0.5:
            struct.pack_into("<I", changed, random.randrange(0, len(changed) - 4) & ~3, number)
        else:
            changed[random.randrange(len(changed))] = number & 0xFF
    return bytes(changed)


TARGET = Target(run, seeds, mutate, words=(b"TFL3",))
