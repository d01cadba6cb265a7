"""Folders that cannot be written, are full, are somebody else's or hold what was built before."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import SPECS, agree, build

import xlac
from xlac.cli import status
from xlac_sdk.host import tool
from xlac_sdk.source import SourceError

DIGITS = str(SPECS / "digits.yaml")


def test_a_folder_of_somebody_elses_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("a file")
    for name in ("mine", "file"):
        assert status(["build", DIGITS, "-o", str(tmp_path / name)]) == 2
        said = capsys.readouterr()
        assert "XL3010" in said.err and "kernels" not in said.out + said.err  # before compiling
    assert status(["build", DIGITS, "-o", str(tmp_path / "file" / "out")]) == 2
    assert "XL30" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "mine", "thesis.txt"]


def test_an_empty_folder_is_built_into(tmp_path: Path) -> None:
    assert status(["build", DIGITS, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "manifest.json").exists()


def test_a_folder_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: Any, **named: Any) -> str:
        raise PermissionError(13, os.strerror(13), str(tmp_path))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert status(["build", DIGITS, "-o", str(tmp_path / "out")]) == 2
    assert "Permission denied" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "form", "spec", "room"),
    [("cpu", "o", "digits", 4), ("cpu", "h", "digits", 4), ("cpu", "so", "digits", 4),
     ("cpu", "exe", "digits", 4),
     ("c", "c", "digits", 4), ("c", "so", "mul_add_reduce", 16),
     ("c", "exe", "mul_add_reduce", 40)],
)  # fmt: skip
@pytest.mark.sampled(2)
def test_a_disk_that_is_full(
    target: str, form: str, spec: str, room: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real one, of a few KB, where this process may mount it; what was there before stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}k", "none", str(disk)],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("this process may not mount a small disk")
    try:
        given = [
            "build",
            str(SPECS / f"{spec}.yaml"),
            "--target",
            target,
            "--emit",
            form,
            *(["--static"] if form == "exe" else []),
            "-o",
            str(disk / "out"),
        ]
        assert status(given) == 4
        said = capsys.readouterr().err
        assert os.strerror(errno.ENOSPC) in said and "XL4002" in said and "linked" not in said
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_tool_that_finds_the_disk_full() -> None:
    """Wherever it writes: that is no fault of what it was given."""
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as error:
        tool.run(
            ["sh", "-c", f"echo 'ld: final link failed: {os.strerror(errno.ENOSPC)}' >&2; exit 1"]
        )
    assert error.value.errno == errno.ENOSPC
    assert (
        tool.run(["sh", "-c", "echo no >&2; exit 1"]) == "no"
        and tool.run(["false"]) == "it ended with 1"
    )
    assert tool.run(["sh", "-c", "echo a warning >&2"]) == ""


def test_an_artefact_is_replaced_whole(tmp_path: Path) -> None:
    """One that was loaded goes on as it was."""
    folder = build("digits", tmp_path / "out", "--dim", "batch=2")
    before = xlac.load(folder)
    build("lstm_3x60", folder)
    assert before(np.zeros((2, 64), np.float32)).shape == (2, 10)
    agree("lstm_3x60", xlac.load(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("damage", [False, True])
def test_files_of_others_in_an_artefact_stay(damage: bool, tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", "--dim", "batch=2", "--emit", "h,so,o")
    (folder / "main.c").write_text("mine")
    (folder / "inner").mkdir()
    (folder / "inner" / "notes.txt").write_text("mine too")
    if damage:
        (folder / "manifest.json").write_text('{"files": 3')
        with pytest.raises(SourceError, match="XL3010"):  # all of it may be anybody's
            build("digits", folder, "--dim", "batch=3", "--emit", "h,so")
    else:
        build("digits", folder, "--dim", "batch=3", "--emit", "h,so")
        assert xlac.load(folder)(np.zeros((3, 64), np.float32)).shape == (3, 10)
    assert (folder / "main.c").read_text() == "mine"
    assert (folder / "inner" / "notes.txt").read_text() == "mine too"
    assert (folder / "digits.o").exists() == damage
