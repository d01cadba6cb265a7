"""What a fuzz target is, and where the targets are: one file each in tests/fuzz/inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random

from xlac.support.extras import EXTRAS

HERE = Path(__file__).parents[1]
FOUND = HERE / "found"
"""A folder for each target with the inputs that were findings once: they stay among its seeds."""
ROOT = HERE.parents[1]

NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    65,
    255,
    1000,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    -(1 << 63),
)
"""Sizes, axes and counts that code does not expect."""

Mutation = Callable[[bytes, Random], bytes | None]


@dataclass(frozen=True)
class Target:
    """A door that takes bytes from anyone.

    `run` reads them: it ends normally or raises one of our own errors. `seeds` are bytes to begin
    with, the cheapest first. `mutate` makes other bytes that are nearly right, or None where it
    sees none; half of all mutations are plain changes of bytes in any case. `words` are pieces for
    those. `needs` are the packages without which its reader reads nothing, as Python imports them.
    """

    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    mutate: Mutation | None = None
    words: tuple[bytes, ...] = ()
    longest: int = 1 << 16  # bytes of an input
    seconds: float = 10  # of CPU time that one input may take
    memory: int = 2 << 30  # bytes that one input may take
    needs: tuple[str, ...] = ()


def names() -> list[str]:
    """The targets there are."""
    return sorted(file.stem for file in (HERE / "inputs").glob("[a-z]*.py"))


def target(name: str) -> Target:
    found = import_module(f"inputs.{name}").TARGET
    assert isinstance(found, Target)
    return found


def lacking(name: str) -> str:
    """What has to be installed before a target can be run, as a sentence; empty where nothing is
    missing.
    """
    missing = [package for package in target(name).needs if find_spec(package) is None]
    if not missing:
        return ""
    command = " ".join(EXTRAS[package] for package in missing)
    return f"not run: it needs {', '.join(missing)}: pip install {command}"


def seeds(name: str) -> Iterator[bytes]:
    """Where fuzzing begins: what was found before, then the target's own."""
    one = target(name)
    for data in chain(
        (file.read_bytes() for file in sorted((FOUND / name).glob("*"))), one.seeds()
    ):
        if len(data) <= one.longest:
            yield data


def plain(data: bytes, random: Random) -> bytes:
    """Bytes dropped, doubled or replaced: mutation where nothing measures coverage."""
    made = bytearray(data or b"\0")
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(made) + 1)
        match random.randrange(4):
            case 0:
                made[at:at] = made[at // 2 : at // 2 + random.randrange(1, 9)]
            case 1:
                made[at : at + 1] = random.randbytes(1)
            case 2:
                del made[at : at + random.randrange(1, 9)]
            case _:
                made[at:at] = str(random.choice(NUMBERS)).encode()
    return bytes(made)
