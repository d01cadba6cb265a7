"""The commands of the chapter on ahead-of-time compilation do what they say."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from packages import SPECS

import xlac
from xlac.cli import status

ROOT = SPECS.parent
CHAPTER = (ROOT / "backends" / "cpu" / "README.md").read_text("utf-8").partition("## Ahead of time")[2].partition("\n## ")[0]
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^    (xlac .*)$", CHAPTER, re.MULTILINE)]


def test_every_command_of_the_chapter_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ld.lld") is None or shutil.which("wasm-ld") is None:
        pytest.skip("other machines' objects are linked by lld: see make test-cross")
    (tmp_path / "specs").mkdir()
    for name in ("digits.yaml", "digits.safetensors", "lstm_3x60.yaml"):
        (tmp_path / "specs" / name).write_bytes((SPECS / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 7
    for command in COMMANDS:
        assert status(shlex.split(command)[1:]) == 0, command
    assert xlac.load("out/digits").inputs == ("image",) and (tmp_path / "out" / "wasm" / "digits.wasm").exists()


def test_the_forms_of_the_chapter_are_those_of_the_backend() -> None:
    from xlac_cpu import BACKEND

    told = {form for row in re.findall(r"^\| (`.*?) \|", CHAPTER, re.MULTILINE) for form in re.findall(r"`(\w+)`", row)}
    assert told == set(BACKEND.forms)


def test_the_lstm_is_as_small_as_promised(tmp_path: Path) -> None:
    """348,480 bytes of it are weights; a program that needs no library is below 360 KB."""
    options = ["--emit", "exe", "--static", "--size", "--triple", "x86_64-unknown-linux-gnu", "--cpu", "x86-64"]
    assert status(["build", str(SPECS / "lstm_3x60.yaml"), *options, "-o", str(tmp_path / "out")]) == 0
    assert 348_480 < (tmp_path / "out" / "lstm_3x60").stat().st_size <= 360_000
