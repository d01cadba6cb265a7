"""docs/TFLITE.md says what is true: its lists of operators are the registry's."""

from __future__ import annotations

from pathlib import Path

from xlac.frontends.tflite import reference
from xlac.frontends.tflite.refused import REFUSED
from xlac.frontends.tflite.registry import OPERATORS

CHAPTER = (Path(__file__).parents[2] / "docs" / "TFLITE.md").read_text(encoding="utf-8")


def test_the_lists_of_operators_are_the_registry() -> None:
    assert reference.written(CHAPTER) == CHAPTER, "run: make docs"


def test_every_operator_is_imported_or_refused_with_a_reason() -> None:
    assert not reference.unnamed()
    assert not set(OPERATORS) & set().union(*REFUSED.values())
