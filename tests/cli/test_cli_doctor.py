"""`xlac doctor`: targets are tried in processes of their own, and say what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xlac.cli import processes, status

BROKEN = """
from xlac_sdk.host import registry
import os, time
class Broken:
    def target(self, request):
        {act}
found = registry.find
registry.find = lambda name: Broken() if name == "reference" else found(name)
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the reference backend do something when it is tried, in its own process."""

    def breaks(act: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(BROKEN.format(act=act))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return breaks


def said(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """The exit code, and what is said of each target."""
    code = status(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(maxsplit=2) for line in lines if line.startswith("target ")]
    return code, {name: text for _, name, text in rows}


def test_a_driver_that_crashes_harms_no_other(
    broken: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac_sdk.host.registry.installed", lambda: ["reference", "cpu"])
    broken("os.abort()")
    code, rows = said(capsys)
    assert code == 1 and "ended by SIGABRT; its driver" in rows["reference"]
    assert rows["cpu"].startswith("works")


def test_a_list_survives_a_driver_that_crashes(
    broken: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac_sdk.host.registry.installed", lambda: ["reference", "c"])
    monkeypatch.setenv("COLUMNS", "200")
    broken("os.abort()")
    assert status(["backend", "list"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "broken" in rows["reference"] and "SIGABRT" in rows["reference"]
    assert rows["c"].rstrip().endswith("ok")


def test_a_driver_that_hangs_ends(
    broken: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac_sdk.host.registry.installed", lambda: ["reference"])
    monkeypatch.setattr(processes, "SECONDS", 3)
    broken("time.sleep(60)")
    code, rows = said(capsys)
    assert code == 1 and "no answer within 3 seconds" in rows["reference"]


def test_a_plug_in_that_raises_is_said(
    broken: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac_sdk.host.registry.installed", lambda: ["reference"])
    broken("raise OSError('no firmware')")
    code, rows = said(capsys)
    assert code == 1 and rows["reference"] == "FAILS: OSError: no firmware"


def test_a_missing_driver_is_no_fault_and_says_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("xlac_opencl")
    program = (
        "import sys; sys.modules['pyopencl'] = None\n"
        "from xlac.cli import status; sys.exit(status(['doctor', '--target', 'opencl']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not here: ") and "pip install pyopencl" in done.stdout


def test_a_missing_compiler_is_no_fault_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert status(["doctor", "--target", "c"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("not here: ") and "needs a C compiler" in text


def test_wrong_results_are_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac.api.compile", lambda *_: lambda x: x)
    assert status(["doctor", "--target", "reference"]) == 1
    assert "FAILS: ArithmeticError: rows of a softmax sum to 119" in capsys.readouterr().out
