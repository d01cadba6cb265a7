"""Programs of torch.export: what is read of a .pt2 before PyTorch takes it apart, and what is made
of the program that PyTorch then gives.
"""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from harness.target import NUMBERS, Target

from xlac.frontends.torch import load
from xlac.ir.verify import verify
from xlac.spec.summary import summarize

TEXTS = (
    "",
    "x",
    "s0",
    "lambda",
    "torch.os.system",
    "torch.ops.aten.add.Tensor",
    "__import__('os')",
    "Symbol('s0')",
    "s0**99",
    "a.b",
    "[1, {}]",
    "cpu",
    "cuda",
)


def run(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder) / "model.pt2"
        file.write_bytes(data)
        model = load(file)
        verify(model.graph)
        summarize(model)


@cache
def programs() -> list[bytes]:
    import torch

    class Sizes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            longer = torch.cat([x, x.flip(0)]).view(-1, 3, 1, 1)
            y = torch.nn.functional.max_pool2d(longer.expand(-1, -1, 4, 4), 2)
            return torch.cond(y.sum() > 0, lambda v: v * x.shape[0], lambda v: v.relu(), (y,))

    linear, found = torch.nn.Linear(3, 2), []
    batch = torch.export.Dim("batch", min=2, max=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module, sizes in (
            (linear, None),
            (linear, {"input": {0: batch}}),
            (Sizes(), {"x": {0: batch}}),
        ):
            file = io.BytesIO()
            torch.export.save(
                torch.export.export(module, (torch.ones(4, 3),), dynamic_shapes=sizes), file
            )
            found.append(file.getvalue())
    return found


def seeds() -> Iterator[bytes]:
    yield from programs()
    for members in (
        {},
        {"m/archive_format": b"pt2"},
        {"m/archive_format": b"pt2", "m/models/model.json": b"{}"},
        {"version": b"8.1"},
        {"a/b": b""},
    ):
        yield archive(members)


def archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in members.items():
            made.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


def mutate(data: bytes, random: Random) -> bytes | None:
    """Something in one of the JSONs changed, dropped or doubled."""
    with (
        suppress(Exception),  # an archive that cannot be read has nothing to change
        zipfile.ZipFile(io.BytesIO(data)) as held,
    ):
        members = {
            name: held.read(name)
            for name in held.namelist()
            if held.getinfo(name).file_size < 1 << 20
        }
        named = [name for name in members if name.endswith(".json")]
        if not named:
            return None
        name = random.choice([*named, *(n for n in named if n.endswith("model.json"))])
        said = json.loads(members[name])
        for _ in range(random.randrange(1, 4)):
            change(said, random)
        members[name] = json.dumps(said).encode()
        return archive(members)
    return None


def change(held: Any, random: Random) -> None:
    """Goes down to some value, and changes it."""
    keys = (
        list(held)
        if isinstance(held, dict)
        else list(range(len(held)))
        if isinstance(held, list)
        else []
    )
    if not keys:
        return
    key = random.choice(keys)
    if isinstance(held[key], dict | list) and held[key] and random.random() < 0.95:
        change(held[key], random)
    elif random.random() < 0.15:
        del held[key]
    else:
        held[key] = random.choice(
            [random.choice(NUMBERS), random.choice(TEXTS), None, True, 1.5, [], {}, [held[key]]]
        )


TARGET = Target(run, seeds, mutate, longest=1 << 16, needs=("torch",))
