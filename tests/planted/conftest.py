"""What `verify` says of a spec in which something is planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import xlac


@pytest.fixture
def cause(tmp_path: Path) -> Callable[..., str]:
    """What `verify` says is at fault in the text of a spec."""

    def run(text: str, target: str = "cpu") -> str:
        spec = tmp_path / "planted.yaml"
        spec.write_text(text, "utf-8")
        found = xlac.verify(spec, target, draws=["random"])
        assert not found.right, found.text()
        return "\n".join(found.causes)

    return run


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is planted stays in no cache."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    yield
