"""Operations that are registered for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xlac
from xlac.frontends.onnx.registry import OPERATORS
from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.integrations.registered.operation import REGISTERED

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "examples" / "custom" / "gated.yaml"
CHAPTER = ROOT / "docs" / "CUSTOM_OPS.md"


@contextmanager
def forgotten() -> Iterator[None]:
    """What is registered inside is forgotten afterwards."""
    tables: tuple[dict[Any, Any], ...] = (REGISTERED, OPERATORS, CUSTOM_CALLS)
    before = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)


def gated(domain: str = "xlac", **options: Any) -> Any:
    """The example's operation."""
    return xlac.register_op(SPEC, domain=domain, allow_kernels=True, **options)["gated"]


def run_chapter(library: str = "") -> None:
    """The chapter's first snippet in Python, and those of a library after it."""
    blocks = [b.partition("```")[0] for b in CHAPTER.read_text().split("```python\n")[1:]]
    first = [block for block in blocks if "import numpy" in block]
    assert first, "the chapter has no snippet"
    more = [block for block in blocks if library and f"import {library}\n" in block]
    names: dict[str, Any] = {}
    for block in (*first, *more):
        exec(compile(block, str(CHAPTER), "exec"), names)  # noqa: S102 - the chapter's own code
    assert bool(more) == bool(library)
