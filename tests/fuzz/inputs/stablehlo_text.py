"""StableHLO as text. Seeds are programs that JAX wrote, and specs written as StableHLO."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from harness.target import NUMBERS, ROOT, Target

import xlac.frontends.stablehlo.ops  # noqa: F401  # fills the table
from xlac.exporters.stablehlo.module import write
from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.table import REFUSED, TABLE
from xlac.ir.verify import verify
from xlac.spec.load import load as read
from xlac.spec.summary import summarize

CORPUS = ROOT / "tests" / "stablehlo" / "corpus"
SHIPPED = ("softmax", "layernorm_gelu", "mul_add_reduce", "branch_cond", "loop_scan", "loop_while")
LONGEST = 1 << 15
WORD = re.compile(
    r'"(?:[^"\\]|\\.)*"|0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+|[%@#!^]?[A-Za-z_][\w.]*|[^\S\n]+|\n|.',
    re.DOTALL,
)
TYPES = (
    "f32",
    "f64",
    "f16",
    "bf16",
    "i1",
    "i8",
    "i32",
    "i64",
    "ui8",
    "ui32",
    "i4",
    "complex<f32>",
    "f8E4M3FN",
    "index",
)


def run(data: bytes) -> None:
    check(data.decode("utf-8", "replace"))


def check(source: str | bytes) -> None:
    model = load(source)
    verify(model.graph)
    summarize(model)


@cache
def texts() -> list[str]:
    """The programs, small ones first."""
    found = [file.read_text() for file in CORPUS.glob("*.mlir")]
    with tempfile.TemporaryDirectory() as folder:
        for name in SHIPPED:
            write(read(ROOT / "specs" / f"{name}.yaml"), Path(folder) / "m.mlir")
            found.append((Path(folder) / "m.mlir").read_text())
    return sorted((text for text in found if len(text) <= LONGEST), key=len)


def seeds() -> Iterator[bytes]:
    yield from (text.encode() for text in texts())


def mutate(data: bytes, random: Random) -> bytes | None:
    text = data.decode("utf-8", "replace")
    for _ in range(random.randrange(1, 4)):
        text = changed(text, random)
    return text.encode()


def changed(text: str, random: Random) -> str:
    """A word replaced by another of its kind, or a line dropped, doubled, moved, or taken from
    another program.
    """
    if random.random() < 0.3:
        lines = text.split("\n")
        at = random.randrange(len(lines))
        match random.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(random.randrange(len(lines)), lines[at])
            case 2:
                lines.insert(at, random.choice(random.choice(texts()).split("\n")))
            case _:
                lines[at] = random.choice(random.choice(texts()).split("\n"))
        return "\n".join(lines)
    words = WORD.findall(text)
    if not words:
        return text
    at = random.randrange(len(words))
    while words[at].isspace() and random.random() < 0.9:
        at = random.randrange(len(words))
    words[at] = other(words[at], words, random)
    return "".join(words)


def other(word: str, words: list[str], random: Random) -> str:
    chance = random.random()
    if chance < 0.15:
        return random.choice(words)
    if chance < 0.2:
        return ""
    if chance < 0.25:
        return word + random.choice(words)
    if word[0].isdigit():
        near = int(word) + random.choice((-1, 1)) if word.isdigit() else 1
        return str(random.choice((*NUMBERS, near, near, near)))
    for prefix in ("stablehlo.", "chlo."):
        if word.startswith(prefix):
            return prefix + random.choice([*OPERATIONS, random.choice(list(REFUSED))])
    if shape := re.fullmatch(r"((?:x|\d+x)*)(\w+)", word):
        return shape.group(1) + random.choice(TYPES)
    return random.choice(words)


OPERATIONS = [name.rpartition(".")[2] for name in TABLE]
WORDS = tuple(f"stablehlo.{name}".encode() for name in OPERATIONS) + tuple(
    f"tensor<{n}x{t}>".encode() for t in TYPES for n in (2, "?")
)
TARGET = Target(run, seeds, mutate, WORDS, LONGEST)
