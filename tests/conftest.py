"""Options and fixtures shared by every test."""

from __future__ import annotations

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="accept the actual text as the golden text")
    parser.addoption("--cross", action="store_true", help="run what needs emulators of other machines too")
    parser.addoption("--gpu", action="store_true", help="run the cuda backend's tests on this machine's GPU, without the stand-in")
    parser.addoption("--all", action="store_true", help="run what takes minutes too")


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
