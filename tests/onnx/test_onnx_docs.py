"""docs/ONNX.md says what is true: its table of operators is the registry's, its counts those of the
tests.
"""

from __future__ import annotations

from pathlib import Path

from test_onnx_suite import TESTS, listed

from xlac.frontends.onnx import reference

CHAPTER = (Path(__file__).parents[2] / "docs" / "ONNX.md").read_text(encoding="utf-8")


def test_the_table_of_operators_is_the_registry() -> None:
    assert reference.written(CHAPTER) == CHAPTER, "run: make docs"


def test_the_counts_are_those_of_the_list() -> None:
    assert f"{TESTS - len(listed()):,} pass" in CHAPTER
    reasons = list(listed().values())
    for reason in set(reasons):
        assert f"| {reasons.count(reason)} | " in CHAPTER
