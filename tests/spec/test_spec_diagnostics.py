"""The catalogue of diagnostics and the code agree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xlac.diagnostics import catalogue, explain
from xlac.support.released import released
from xlac_sdk.source import SourceError

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"(?<![\w{`])XL\d{4}\b")

HEAD = re.compile(r"^(XL\d{4}) ", re.MULTILINE)


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
    missing = {code: files for code, files in used().items() if code not in catalogue()}
    assert not missing, f"add them to xlac/diagnostics.txt, or to a backend's: {missing}"


def test_entries_say_something() -> None:
    assert all(len(e.title) >= 5 and len(e.text) >= 15 for e in catalogue().values())
    joined = [e.code for e in catalogue().values() if re.search(r"^XL\d{4} ", e.text, re.MULTILINE)]
    assert not joined, f"a line without text is missing after {joined}"
    assert "byte-order mark" in explain("XL1002")
    with pytest.raises(SourceError, match="no diagnostic XL1999"):
        explain("XL1999")


def test_backends_bring_the_entries_of_their_own_diagnostics() -> None:
    own = ROOT / "toolchain" / "xlac" / "diagnostics.txt"
    files = [own, *(ROOT / "backends").glob("*/xlac_*/diagnostics.txt")]
    assert len(files) > 3
    codes = [code for file in files for code in HEAD.findall(file.read_text(encoding="utf-8"))]
    twice = sorted({code for code in codes if codes.count(code) > 1})
    assert not twice, twice
    assert set(codes) == set(catalogue())
    rooms: dict[str, set[str]] = {}
    for code, where in used().items():
        for file in where:
            rooms.setdefault(code, set()).add(file.split("/")[1])
    for file in files[1:]:
        strange = [
            code
            for code in HEAD.findall(file.read_text(encoding="utf-8"))
            if rooms[code] != {file.parent.parent.name}
        ]
        assert not strange, f"{file} explains what others say too: {strange}"


def test_a_backend_is_not_imported_for_its_entries() -> None:
    command = (
        "import sys, xlac.diagnostics as d; d.explain('XL5214'); print('xlac_cuda' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_released_backends_are_extras() -> None:
    folders = sorted(path.parent.name for path in (ROOT / "backends").glob("*/pyproject.toml"))
    assert released() == folders
