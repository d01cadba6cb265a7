"""Manifests of artefacts: what `xlac.load` reads before it opens anything, with the hash of itself
put right.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from harness.target import NUMBERS, ROOT, Target

from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.host.capi.opened import check

VALUES: tuple[Any, ...] = (
    *NUMBERS,
    1.5,
    None,
    True,
    "",
    "..",
    "../x",
    "/x",
    "m.so",
    "n",
    [],
    {},
    [[1, ["n"]]],
    [[1, [{"of": [[1, ["n"]]], "by": 2}]]],
    "0" * 64,
)


def run(data: bytes) -> None:
    try:
        facts = json.loads(data)
        if isinstance(facts, dict):
            facts.pop("sha256", None)
            facts["sha256"] = manifest_facts.digest(facts)
            data = json.dumps(facts).encode()
    except (ValueError, RecursionError):
        pass
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / manifest.NAME).write_bytes(data)
        (Path(folder) / "m.so").write_bytes(b"")
        manifest.listed(Path(folder))
        found = manifest.read(Path(folder))
        check(found.artefact(Path(folder)).machines)


@cache
def built() -> list[bytes]:
    from xlac.cli import root

    texts = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for number, options in enumerate(
            (
                ("--dim", "batch=2"),
                ("--dim", "batch=1..8", "--variant", "batch=1"),
                ("--weights", "mmap", "--dim", "batch=1"),
            )
        ):
            out = Path(folder) / str(number)
            root.main(
                ["build", str(ROOT / "specs" / "digits.yaml"), "-o", str(out), *options],
                standalone_mode=False,
            )
            facts = json.loads((out / manifest.NAME).read_text())
            facts["files"] = {"m.so": EMPTY}
            facts.update(library="m.so", weights_file="", weights="embed")
            texts.append(json.dumps(facts).encode())
    return texts


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no bytes


def seeds() -> Iterator[bytes]:
    yield from built()
    for key in ("inputs", "files", "provenance"):
        facts = json.loads(built()[1])
        del facts[key]
        yield json.dumps(facts).encode()


def mutate(data: bytes, random: Random) -> bytes | None:
    """Another value somewhere in the JSON."""
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError):
        return None
    at = facts
    while isinstance(at, dict | list) and at:
        key = random.choice(sorted(at)) if isinstance(at, dict) else random.randrange(len(at))
        if not isinstance(at[key], dict | list) or not at[key] or random.random() < 0.2:
            match random.randrange(4):
                case 0:
                    del at[key]
                case 1 if isinstance(at, list):
                    at.append(at[key])
                case _:
                    at[key] = random.choice(VALUES)
            return json.dumps(facts).encode()
        at = at[key]
    return None


TARGET = Target(
    run,
    seeds,
    mutate,
    words=tuple(
        f'"{name}"'.encode()
        for name in (
            "format",
            "inputs",
            "shape",
            "sizes",
            "min",
            "of",
            "by",
            "files",
            "machines",
            "triple",
        )
    ),
)
