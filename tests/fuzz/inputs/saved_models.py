"""Files of SavedModels: what `xlac check folder/` says of saved_model.pb without TensorFlow, which
alone loads one: its signatures, and for each the operations that are not supported.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from harness.target import NUMBERS, ROOT, Target, plain

from xlac.frontends.tensorflow.saved_graph import DEFAULT, SavedGraph
from xlac.frontends.tensorflow.saved_model import load
from xlac.support.protobuf import COUNTED, VARINT, MalformedProtobuf, fields
from xlac_sdk.source import SourceError

DEEP = 9  # messages inside messages down to an attribute of an operation


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "saved_model.pb").write_bytes(data)
        saved = SavedGraph(Path(folder))
        for name in [*saved.signatures, DEFAULT]:
            with suppress(SourceError):
                load(Path(folder), signature=name)
            with suppress(SourceError):
                saved.check(saved.signature(name))


def seeds() -> Iterator[bytes]:
    sys.path.insert(0, str(ROOT / "tests" / "tf_functions"))
    from saved_model_writer import entry, field, node, saved, tensor

    whole = saved()
    yield whole
    yield b""
    yield field(2, b"")
    yield field(2, entry(5, "serving_default", b""))
    typed = entry(1, "x", tensor("x:0", 1, 2, 4)) + entry(2, "y", tensor("y:0", 3))
    yield field(2, entry(5, "serving_default", typed))
    calls = [node(str(n), "PartitionedCall", str(n - 1), calls=str(n + 1)) for n in range(9)]
    functions = b"".join(
        field(1, field(1, field(1, str(n))) + field(3, calls[n])) for n in range(9)
    )
    graph = field(2, b"".join(field(1, one) for one in calls) + field(2, functions))
    long = entry(5, "serving_default", entry(2, "y", tensor("8:0", 1)))
    yield field(2, graph + long)
    yield whole + whole


def mutate(data: bytes, random: Random) -> bytes | None:
    """A field of some message changed, dropped, doubled or moved."""
    try:
        return _changed(data, random, DEEP)
    except MalformedProtobuf:
        return None


def _changed(data: bytes, random: Random, deep: int) -> bytes:
    parts = [
        (number, wire, data[start:stop], data[begin:stop])
        for start, number, wire, begin, stop in fields(memoryview(data), 0, len(data))
    ]
    if not parts:
        return data
    at, action = random.randrange(len(parts)), random.random()
    number, wire, whole, content = parts[at]
    made = whole
    if action < 0.08:
        made = b""
    elif action < 0.16:
        made = whole + whole
    elif action < 0.24:
        made = random.choice(parts)[2] + whole
    elif wire == VARINT:
        made = _varint(number << 3) + _varint(random.choice(NUMBERS) % (1 << 64))
    elif wire == COUNTED:
        inner = plain(content, random)
        if deep and random.random() < 0.9:
            with suppress(MalformedProtobuf):
                inner = _changed(content, random, deep - 1)
        made = _varint(number << 3 | COUNTED) + _varint(len(inner)) + inner
    return b"".join(made if n == at else part[2] for n, part in enumerate(parts))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


WORDS = (b"serve", b"serving_default", b"PartitionedCall", b"HashTableV2", b"x:0", b"^x")
TARGET = Target(run, seeds, mutate, words=WORDS, longest=1 << 14)
