"""The commands of the chapter on ahead-of-time compilation do what they say."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
from pathlib import Path

import pytest
from packages import SPECS

import xlac
from xlac.cli import status

ROOT = SPECS.parent
CHAPTER = (
    (ROOT / "backends" / "cpu" / "README.md")
    .read_text("utf-8")
    .partition("## Ahead of time")[2]
    .partition("\n## ")[0]
)
COMMANDS = [
    line.partition("#")[0].strip() for line in re.findall(r"^    (xlac .*)$", CHAPTER, re.MULTILINE)
]


def test_every_command_of_the_chapter_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("ld.lld") is None or shutil.which("wasm-ld") is None:
        pytest.skip("other machines' objects are linked by lld: see make test-cross")
    (tmp_path / "specs").mkdir()
    for name in ("digits.yaml", "digits.safetensors", "lstm_3x60.yaml"):
        (tmp_path / "specs" / name).write_bytes((SPECS / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 7
    for command in COMMANDS:
        assert status(shlex.split(command)[1:]) == 0, command
    assert (
        xlac.load("out/digits").inputs == ("image",)
        and (tmp_path / "out" / "wasm" / "digits.wasm").exists()
    )


def test_the_forms_of_the_chapter_are_those_of_the_backend() -> None:
    from xlac_cpu import BACKEND

    told = {
        form
        for row in re.findall(r"^\| (`.*?) \|", CHAPTER, re.MULTILINE)
        for form in re.findall(r"`(\w+)`", row)
    }
    assert told == set(BACKEND.forms)


LSTM = str(SPECS / "lstm_3x60.yaml")
ARM = ["--triple", "armv7-unknown-linux-gnueabihf", "--cpu", "cortex-a9", "--size"]


@pytest.mark.parametrize(
    "cpu",
    [["--triple", "x86_64-unknown-linux-gnu", "--cpu", "x86-64"], ["--cpu", "x86-64-v4"]],
    ids=["sse2", "avx512"],
)
def test_the_lstm_is_as_small_as_promised(cpu: list[str], tmp_path: Path) -> None:
    """348,480 bytes of it are weights; a program that needs no library is below 360 KB, whatever
    linker the machine has.
    """
    if shutil.which("cc") is None:
        pytest.skip("the program's own text needs a C compiler")
    assert (
        status(
            [
                "build",
                LSTM,
                "--emit",
                "exe",
                "--static",
                "--size",
                *cpu,
                "-o",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    assert 348_480 < (tmp_path / "out" / "lstm_3x60").stat().st_size <= 360_000


def test_a_library_for_arm_is_as_small_as_promised(tmp_path: Path) -> None:
    if shutil.which("ld.lld") is None:
        pytest.skip("other machines' objects are linked by lld: see make test-cross")
    assert status(["build", LSTM, *ARM, "--emit", "so", "-o", str(tmp_path / "out")]) == 0
    library = tmp_path / "out" / "liblstm_3x60.so"
    assert 348_480 < library.stat().st_size <= 354_000 and sections(library)[".text"] <= 1_800


def test_an_object_with_int8_weights_is_as_small_as_promised(tmp_path: Path) -> None:
    assert (
        status(
            ["build", LSTM, *ARM, "--quantize", "int8", "--emit", "o", "-o", str(tmp_path / "out")]
        )
        == 0
    )
    assert 87_120 < sum(sections(tmp_path / "out" / "lstm_3x60.o").values()) <= 95_000


def sections(file: Path) -> dict[str, int]:
    """The bytes of what is loaded of an ELF file of 32 bits, by section."""
    data = file.read_bytes()
    start, size, count, names = (
        struct.unpack_from("<I", data, 32)[0],
        *struct.unpack_from("<HHH", data, 46),
    )
    headers = [struct.unpack_from("<10I", data, start + size * number) for number in range(count)]
    texts = headers[names][4]
    found = {}
    for name, _, flags, _, _, nbytes, *_ in headers:
        at = texts + name
        if flags & 2:  # SHF_ALLOC
            found[data[at : data.index(b"\0", at)].decode()] = nbytes
    return found
