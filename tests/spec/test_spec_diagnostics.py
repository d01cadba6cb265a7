"""The catalogue of diagnostics and the code agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlac.diagnostics import CATALOGUE, explain
from xlac_sdk.source import SourceError

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"(?<![\w{`])XL\d{4}\b")


def used() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for room in ("toolchain/xlac", "backend_sdk/xlac_sdk", "backends"):
        for file in (ROOT / room).rglob("*.py"):
            if file.name == "diagnostics.py":
                continue
            text = re.sub(r'""".*?"""', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
            for code in CODE.findall(text):
                found.setdefault(code, []).append(str(file.relative_to(ROOT)))
    return found


def test_every_code_is_catalogued() -> None:
    missing = {code: files for code, files in used().items() if code not in CATALOGUE}
    assert not missing, f"add them to xlac/diagnostics.txt: {missing}"


def test_entries_say_something() -> None:
    assert all(len(e.title) >= 5 and len(e.text) >= 15 for e in CATALOGUE.values())
    joined = [e.code for e in CATALOGUE.values() if re.search(r"^XL\d{4} ", e.text, re.MULTILINE)]
    assert not joined, f"a line without text is missing after {joined}"
    assert "byte-order mark" in explain("XL1002")
    with pytest.raises(SourceError, match="no diagnostic XL1999"):
        explain("XL1999")
