"""Progress is seen on a terminal's standard error only, goes before anything is printed, and leaves
what is printed as it was.
"""

from __future__ import annotations

import io
import re
import sys
import threading
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.cli.progress import Progress, current

SPECS = Path(__file__).parents[2] / "specs"
SMALL = str(SPECS / "softmax.yaml")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error is a terminal, and nobody waits before there is a line."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(Progress, "_arm", Progress._show)
    monkeypatch.setenv("TERM", "xterm")
    return made


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_line_goes_before_anything_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    with Progress("reading") as progress:
        assert "reading" in plain(terminal.getvalue())
        progress.count("testing [x]", 3, 12)
        progress._bar.refresh()
        assert "testing [x]" in plain(terminal.getvalue()) and "3 of 12" in plain(
            terminal.getvalue()
        )
        before = len(terminal.getvalue())
        print("result")
        said = terminal.getvalue()[before:]
        assert "\x1b[2K" in said[: said.index("result")], "the line is erased first"
        assert said.index("result") < said.rindex("testing"), "and comes back"
    assert sys.stdout is terminal and sys.stderr is terminal
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l"), (
        "the cursor is seen"
    )
    assert terminal.getvalue().rindex("\x1b[2K") > terminal.getvalue().rindex("testing"), (
        "no line is left"
    )


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, out, threads = io.StringIO(), sys.stdout, threading.active_count()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr("xlac.cli.progress.DELAY", 0.0)
    with Progress("reading") as progress:
        progress.update(5, 10)
        assert sys.stderr is pipe and sys.stdout is out and threading.active_count() == threads
    assert pipe.getvalue() == ""


def test_what_is_done_soon_needs_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr("xlac.cli.progress.DELAY", 3600.0)
    with Progress("reading") as progress:
        progress.stage("more")
    assert made.getvalue() == ""


def test_the_one_inside_is_the_current_one() -> None:
    with Progress() as outer:
        with Progress() as inner:
            assert current() is inner
        assert current() is outer
    assert current() is not outer


@pytest.mark.parametrize(
    "command",
    [["check"], ["run"], ["explain"], ["inspect", "--stage", "kernels"],
     ["profile", "--seconds", "0.01"], ["bench", "--seconds", "0.01"], ["expand"]],
    ids=lambda command: command[0],
)  # fmt: skip
def test_every_command_that_compiles_tells_its_stages(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, printed = watched(monkeypatch), io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert status([command[0], SMALL, *command[1:]]) == 0
    out, told = printed.getvalue(), plain(terminal.getvalue())
    assert "reading softmax.yaml" in told
    assert out and "\x1b" not in out and "reading softmax.yaml" not in out


def test_a_mistake_is_told_after_the_line_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert status(["check", "nothing.yaml"]) == 2
    assert terminal.getvalue().rindex("XL3001") > terminal.getvalue().rindex("\x1b[2K")
