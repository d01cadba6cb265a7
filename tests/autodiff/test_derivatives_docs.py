"""docs/DERIVATIVES.md: its examples give what it says."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from xlac.api import compile

CHAPTER = Path(__file__).parents[2] / "docs" / "DERIVATIVES.md"


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted: how programs are compiled is tested elsewhere."""

    def interpreted(model: Any, **options: Any) -> Any:
        return compile(model, **{**options, "target": "reference"})

    monkeypatch.setattr("xlac.integrations.jit.compile", interpreted)
    failed, tried = doctest.testfile(str(CHAPTER), module_relative=False)
    assert tried > 20 and not failed
