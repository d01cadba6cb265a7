"""Fixtures of tests of the cache: a spec, and what the compiler is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kept_models import SPEC, weights

from xlac import driver


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec with its weights in a file, and a cache of its own."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "small.yaml"
    file.write_text(SPEC)
    weights(tmp_path, 0)
    return file


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the compiler is asked to compile, in order."""
    asked: list[object] = []
    real = driver.compile

    def compile(source: object, *args: Any, **named: Any) -> Any:
        asked.append(source)
        return real(source, *args, **named)

    monkeypatch.setattr(driver, "compile", compile)
    return asked


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sizes of every model that is lowered, in order."""
    seen: list[object] = []
    real = driver.lower

    def lower(model: Any, *args: Any, **named: Any) -> Any:
        seen.append(model.inputs[0].shape)
        return real(model, *args, **named)

    monkeypatch.setattr(driver, "lower", lower)
    return seen
