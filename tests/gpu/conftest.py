"""The harness of the schedules' tests serves those of a GPU too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter runs is no file: there is nothing to keep."""
    monkeypatch.setenv("XLAC_CACHE", "off")
