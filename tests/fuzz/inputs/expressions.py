"""Expressions of specs, each the value of a node beside a few others that it may name."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from harness.target import NUMBERS, ROOT, Target

from xlac.ir.verify import verify
from xlac.ops import OPS
from xlac.spec.load import load
from xlac.spec.summary import summarize

AROUND = (
    '{"xlac": 1, "model": "m", "params": {"k": 3, "b": 1.5}, "dims": {"n": {"max": 64}}, "inputs": '
    '{"x": "f32[4, 6]", "z": "f32[4, 6]", '
    '"i": "i32[4, 6]", "w": "f32[n, 6]"}, "graph": {"h": {"op": "sort", "in": "x"}, "y": %s}, '
    '"outputs": ["y"]}'
)
PIECES = [
    *"x z i w h $k n [ ] ( ) , : ** // @ << if else not and ... None axis= ' $".split(),
    *("${k + 1}", "1e400", "0x10", "1_0", "-1"),
    *map(str, NUMBERS),
    *OPS,
]
WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "model.yaml"
        file.write_text(AROUND % json.dumps(data.decode("utf-8", "replace")), encoding="utf-8")
        model = load(file)
        verify(model.graph)
        summarize(model)


def seeds() -> Iterator[bytes]:
    """The expressions of the language's tests, and of the specs that come with xlac."""
    text = (ROOT / "tests" / "spec" / "test_spec_expressions.py").read_text(encoding="utf-8")
    yield from (found.encode() for found in re.findall(r'^    "([^"\\]+)":? ?', text, re.MULTILINE))
    for file in sorted((ROOT / "specs").glob("*.yaml")):
        yield from (
            found.encode()
            for found in re.findall(
                r"^  \w+: ([a-z]\w*\(.*\))$", file.read_text(encoding="utf-8"), re.MULTILINE
            )
        )


def mutate(data: bytes, random: Random) -> bytes | None:
    """A word replaced, dropped, or put in."""
    words = WORD.findall(data.decode("utf-8", "replace"))
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(words) + 1)
        words[at : at + random.randrange(2)] = (
            [random.choice(PIECES)] if random.random() < 0.8 else []
        )
    return "".join(words).encode()


TARGET = Target(run, seeds, mutate, tuple(piece.encode() for piece in PIECES), 1 << 12)
