"""Options and fixtures shared by every test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="accept the actual text as the golden text")
    parser.addoption("--cross", action="store_true", help="run what needs emulators of other machines too")
    parser.addoption("--gpu", action="store_true", help="run the cuda backend's tests on this machine's GPU, without the stand-in")
    parser.addoption("--all", action="store_true", help="run what takes minutes too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(n): about one case of n is run, drawn by its name; with --all, every one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of tests that are marked `sampled`. One alone, asked for by its name, is run."""
    if config.getoption("--all"):
        return
    left = [item for item in items if not _drawn(item, config.args)]
    gone = set(left)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left)


def _drawn(item: pytest.Item, asked: Sequence[str]) -> bool:
    mark = item.get_closest_marker("sampled")
    return mark is None or any("::" in name for name in asked) or crc32(item.name.encode()) % mark.args[0] == 0


class Golden:
    """Compares text with a file under tests/golden, or writes the file when --bless is given."""

    def __init__(self, bless: bool) -> None:
        self.bless = bless

    def check(self, name: str, actual: str) -> None:
        self.check_file(GOLDEN / name, actual)

    def check_file(self, file: Path, actual: str) -> None:
        if self.bless:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, encoding="utf-8")
        assert file.exists(), f"{file} is missing; if it should exist, run pytest --bless"
        assert actual == file.read_text(encoding="utf-8"), f"{file} differs; if it should, run pytest --bless"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(bool(request.config.getoption("--bless")))
