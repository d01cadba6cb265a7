"""Fixtures of tests of archives: one of every kind, and a trap for what files would run."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xlac_sdk.source import SourceError


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from archive_files import Rich, torch

    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("rich") / "rich.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    args, kwargs = (torch.ones(3, 4), {"z": torch.ones(3, 4)}), {"scale": torch.ones(())}
    sizes = {"x": {0: batch}, "more": {"z": {0: batch}}, "scale": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Rich(), args, kwargs, dynamic_shapes=sizes), file)
    return file


@pytest.fixture
def trap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path], None]]:
    """Loads a file, and says whether anything that it brought was run."""
    from xlac.frontends.loader import load
    from xlac.frontends.torch import opened

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(os, "system", lambda text: Path("was_here").touch())
    (tmp_path / "wicked.py").write_text(
        "import pathlib; pathlib.Path('was_here').touch()\nclass A: pass\n"
    )

    imported: list[Path] = []

    def check(file: Path) -> None:
        with contextlib.suppress(SourceError):
            program = opened(file)
            if request.config.getoption("--all") and len(imported) < 3:  # takes ten times as long
                imported.append(file)
                load(program)
        assert not Path("was_here").exists() and "wicked" not in sys.modules

    yield check
    sys.modules.pop("wicked", None)
