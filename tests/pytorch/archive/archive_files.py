"""A file of torch.export of every kind, copies of it with other members, and code that would leave
a mark where it ran.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

CODE = "__import__('pathlib').Path('was_here').touch()"


class Rich(torch.nn.Module):
    """A parameter, a buffer that changes, a constant, sizes that are open, a dict and keywords, an
    operation with text.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.ones(4))

    def forward(
        self, x: torch.Tensor, more: dict[str, torch.Tensor], *, scale: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        y = torch.nn.functional.gelu(self.linear(x), approximate="tanh") * scale + torch.tensor(
            [1.0, 2.0, 3.0, 4.0]
        )
        self.total.add_(y.detach().sum(0))
        return {"y": y + more["z"] * x.shape[0], "mean": self.total / x.shape[0]}


def changed(
    source: Path, file: Path, change: Callable[[str, bytes], bytes | None], **more: bytes
) -> Path:
    """A copy of an archive with members changed, or left out, and others put into it."""
    with zipfile.ZipFile(source) as given, zipfile.ZipFile(file, "w") as made:
        for name in given.namelist():
            data = change(name, given.read(name))
            if data is not None:
                made.writestr(zipfile.ZipInfo(name), data)
        root = given.namelist()[0].partition("/")[0]
        for name, data in more.items():
            made.writestr(zipfile.ZipInfo(f"{root}/{name}"), data)
    return file


def texts(held: Any) -> Iterator[str]:
    """Every text of a JSON, keys as well."""
    if isinstance(held, str):
        yield held
    for part in held.items() if isinstance(held, dict) else held if isinstance(held, list) else ():
        yield from (t for p in (part if isinstance(part, tuple) else (part,)) for t in texts(p))


def replaced(held: Any, old: str, new: str) -> Any:
    """A JSON with one text in place of another everywhere."""
    if isinstance(held, str):
        return new if held == old else held
    if isinstance(held, dict):
        return {replaced(k, old, new): replaced(v, old, new) for k, v in held.items()}
    return [replaced(v, old, new) for v in held] if isinstance(held, list) else held
