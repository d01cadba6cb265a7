"""Specs: what `xlac check model.yaml` reads. Seeds are the specs that come with xlac, the broken
ones too.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from zlib import crc32

from harness.target import NUMBERS, ROOT, Target

from xlac.exporters.spec import text as written
from xlac.ir.graph import Graph, Node
from xlac.ir.verify import verify
from xlac.model import Model
from xlac.ops import OPS, build
from xlac.ops.tensor.leaf import Param
from xlac.spec.load import load
from xlac.spec.summary import summarize
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError

WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|\d+(?:\.\d+)?|\w+|[^\S\n]+|\n|.')


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "model.yaml"
        file.write_bytes(data)
        model = load(file, weights=False)
        verify(model.graph)
        summarize(model)


@cache
def texts() -> list[str]:
    """The specs, small ones first."""
    files = [*(ROOT / "specs").glob("*.yaml"), *(ROOT / "specs" / "broken").glob("*.yaml")]
    return sorted((file.read_text(encoding="utf-8", errors="replace") for file in files), key=len)


def seeds() -> Iterator[bytes]:
    yield from (text.encode() for text in texts() if text)


def of_operations(each: int = 12) -> Iterator[bytes]:
    """Every sample of every operation as a spec, or one of `each`; of those that differ in element
    types only, the first.
    """
    seen = set()
    for name, op in OPS.items():
        for number, sample in enumerate(op.samples()):
            numbers = repr(
                [
                    name,
                    [type.shape for type in sample.inputs],
                    {k: v for k, v in sample.attributes.items() if not isinstance(v, DType)},
                ]
            )
            if numbers not in seen and crc32(f"{name} {number}".encode()) % each == 0:
                seen.add(numbers)
                params = [Node.of(Param(f"x{at}", type)) for at, type in enumerate(sample.inputs)]
                results = build.results(Node.of(op(**sample.attributes), *params))
                with suppress(UnsupportedError):  # which a spec cannot say
                    yield written(
                        Model(
                            Graph(
                                name,
                                tuple(params),
                                {f"y{at}": node for at, node in enumerate(results)},
                            ),
                            {},
                        )
                    ).encode()


def mutate(data: bytes, random: Random) -> bytes | None:
    """Words replaced by others, lines dropped, doubled or taken from another spec."""
    text = data.decode("utf-8", "replace")
    for _ in range(random.randrange(1, 4)):
        lines = text.split("\n")
        if random.random() < 0.3:
            lines[random.randrange(len(lines))] = random.choice(random.choice(texts()).split("\n"))
            text = "\n".join(lines)
            continue
        words = WORD.findall(text)
        if not words:
            return None
        at = random.randrange(len(words))
        number = words[at][0].isdigit() and random.random() < 0.7
        words[at] = (
            str(random.choice(NUMBERS)) if number else random.choice([*words, random.choice(NAMES)])
        )
        text = "".join(words)
    return text.encode()


NAMES = [
    *OPS,
    "scan",
    "while",
    "cond",
    "block",
    "repeat",
    "params",
    "dims",
    "blocks",
    "ops",
    "state",
    "f32[n]",
    "$p",
    "${n + 1}",
    "&a",
    "*a",
    "<<",
]
TARGET = Target(run, seeds, mutate, tuple(name.encode() for name in NAMES), 1 << 14)
