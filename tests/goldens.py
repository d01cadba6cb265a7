"""Texts under tests/golden that a test compares with, and that `make bless` accepts anew."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


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
        assert actual == file.read_text(encoding="utf-8"), (
            f"{file} differs; if it should, run pytest --bless"
        )
