"""docs/PORTING.md names every fact and every entry of a dialect, and its snippets run."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.kernel_ir.primitives import MANDATORY
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.target import Target

CHAPTER = (Path(__file__).parents[3] / "docs" / "PORTING.md").read_text(encoding="utf-8")


def rows() -> set[str]:
    """The names in the first column of the chapter's tables."""
    return {
        name
        for line in CHAPTER.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }


@pytest.mark.parametrize("kind", [Target, MachineFacts, Dialect])
def test_every_field_has_a_row(kind: type) -> None:
    assert {field.name for field in fields(kind)} <= rows()


def test_every_row_is_a_field() -> None:
    known = {field.name for kind in (Target, MachineFacts, Dialect) for field in fields(kind)}
    assert rows() <= known


def test_the_mandatory_primitives_are_listed() -> None:
    (line,) = (one for one in CHAPTER.splitlines() if one.startswith("The mandatory primitives"))
    assert {p.value for p in MANDATORY} == set(re.findall(r"(\w+)[,.]", line + "."))


def test_the_snippets_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", CHAPTER, re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(snippet, {})  # noqa: S102
