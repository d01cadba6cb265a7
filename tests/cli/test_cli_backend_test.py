"""`xlac backend test`: failures as they come, -x stops at the first, --lf runs what failed last
time.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.cli.backends.backend_test import MOST
from xlac.debug.conformance import OperationOutcome as OfOperation
from xlac_sdk.backend import Backend
from xlac_sdk.conformance import Case, Outcome, cases
from xlac_sdk.conformance import run as package  # the function
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request, Target

RUN = package.__globals__  # of the module that the function hides


@cache
def adds() -> list[Case]:
    """The kit's cases of additions: making all takes half a second."""
    return [case for case in cases(find("reference").target(Request())) if "add" in case.group]


class Kit:
    """Cases that pass or fail as a test says; what ran is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.bad: set[str] = set()
        self.refused: str = ""  # why the backend refuses every case
        self.ran: list[str] = []
        monkeypatch.setitem(RUN, "check", self.check)
        monkeypatch.setitem(RUN, "cases", lambda target: adds())
        monkeypatch.setattr("xlac.debug.conformance._run", self.operations)
        monkeypatch.setenv("XLAC_CACHE", str(folder))

    def check(self, case: Case, backend: Backend, target: Target) -> list[Outcome]:
        self.ran.append(case.name)
        if self.refused:
            return [Outcome(case.group, case.name, "unsupported", f"{self.refused}\nand more")]
        return [
            Outcome(
                case.group,
                case.name,
                "failed" if case.name in self.bad else "passed",
                "it is wrong [1, 2]" * (case.name in self.bad),
            )
        ]

    def operations(
        self, chosen: list[object], backend: Backend, target: Target
    ) -> list[OfOperation]:
        names = [str(case.name) for case in chosen]  # type: ignore[attr-defined]
        self.ran += names
        if self.refused:
            return [OfOperation(name, "unsupported", self.refused) for name in names]
        return [
            OfOperation(name, "failed" if name.partition(":")[0] in self.bad else "passed", "wrong")
            for name in names
        ]

    def test(self, *options: str) -> int:
        self.ran = []
        return status(["backend", "test", "reference", "--only", "add", *options])


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kit:
    return Kit(monkeypatch, tmp_path)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_failures_come_before_the_tables(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    kit.bad = {"add vector", "add-0"}
    assert kit.test() == 1
    text = told(capsys)
    assert (
        text.index("✗ add vector it is wrong [1, 2]")
        < text.index("✗ add-0")
        < text.index("Primitives")
    )
    assert text.count("it is wrong") == 1 and "2 failed" in text


def test_x_stops_at_the_first(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    kit.bad = {"add scalar", "add vector"}
    assert kit.test("-x") == 1
    assert kit.ran[-1] == "add scalar"
    assert "1 failed" in told(capsys)


def test_lf_runs_what_failed_until_it_passes(
    kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit.bad = {"add scalar", "add vector", "add-0"}
    assert kit.test() == 1
    whole = len(set(kit.ran))
    kept = tmp_path / "last-failed" / "reference.json"
    assert len(json.loads(kept.read_text())) == 3
    kit.bad = {"add vector", "add-0"}
    assert kit.test("--lf") == 1
    assert {"add scalar", "add vector"} <= set(kit.ran) and len(set(kit.ran)) < whole
    assert kit.test("--lf", "-x") == 1 and kit.ran == ["add vector"], "what passed is not run again"
    assert kit.test("--lf", "--kernels") == 1 and kit.ran == ["add vector"]
    kit.bad = {"add-0"}
    assert kit.test("--lf", "--kernels") == 0
    assert kit.test("--lf") == 1 and "add vector" not in kit.ran, (
        "an operation that failed is kept though it did not run"
    )
    kit.bad = set()
    assert kit.test("--lf") == 0 and json.loads(kept.read_text()) == []
    capsys.readouterr()
    assert kit.test("--lf") == 0 and len(set(kit.ran)) == whole
    assert "no failure of 'reference' is kept: everything runs" in capsys.readouterr().err


def test_a_case_that_is_no_more_is_forgotten(kit: Kit, tmp_path: Path) -> None:
    kept = tmp_path / "last-failed" / "reference.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps([["add", "add of old"], ["sub", "sub scalar"]]))
    assert kit.test("--lf") == 0 and kit.ran == []
    assert json.loads(kept.read_text()) == [["sub", "sub scalar"]]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[["a"]]', "\x00"])
def test_a_broken_file_tells_nothing(text: str, kit: Kit, tmp_path: Path) -> None:
    kept = tmp_path / "last-failed" / "reference.json"
    kept.parent.mkdir()
    kept.write_text(text)
    assert kit.test("--lf", "--kernels") == 0 and kit.ran


def test_without_a_cache_it_runs_everything(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    kit.bad = {"add scalar"}
    assert kit.test("--kernels") == 1 and kit.test("--lf", "--kernels") == 1 and len(kit.ran) > 1


def test_an_interrupted_run_is_resumed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kit.test() == 0
    whole = kit.ran
    left = dict.fromkeys(whole[1:])

    def killed(case: Case, backend: Backend, target: Target) -> list[Outcome]:
        if case.name == whole[1]:
            raise KeyboardInterrupt
        return kit.check(case, backend, target)

    with monkeypatch.context() as broken:
        broken.setitem(RUN, "check", killed)
        assert kit.test() != 0 and kit.ran == whole[:1]
    assert kit.test("--resume") == 0
    assert dict.fromkeys(kit.ran) == left
    assert "left out, as they passed: 1" in capsys.readouterr().err
    assert kit.test("--resume") == 0 and kit.ran == whole, "a run that ended leaves nothing out"


def test_what_failed_runs_again_when_resumed(kit: Kit) -> None:
    kit.bad = {"add vector"}
    assert kit.test("-x") == 1
    before = kit.ran[:-1]
    assert kit.test("--resume") == 1
    assert kit.ran[0] == "add vector" and not {*before} & {*kit.ran}


def test_a_sample_has_a_case_of_every_group(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    assert kit.test() == 0
    whole = len(kit.ran)
    capsys.readouterr()
    assert kit.test("--fast") == 0
    ran = [case for case in adds() if case.name in kit.ran]
    assert {case.group for case in ran} == {case.group for case in adds()}
    assert len(kit.ran) < whole and "add-0" in " ".join(kit.ran)
    assert sum(name.startswith("add-") for name in kit.ran) == MOST


def test_without_a_terminal_progress_is_lines(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xlac.cli.progress.ProgressLines.SECONDS", 0)
    kit.bad = {"add scalar"}
    assert kit.test("--kernels") == 1
    captured = capsys.readouterr()
    assert f"1 of {len(adds())}, 1 failed, 0 s: " in captured.err
    assert "seconds" in captured.out


def test_a_name_that_selects_nothing_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """Else a slip would look like a success."""
    assert status(["backend", "test", "reference", "--only", "zzz"]) == 2
    assert "--only zzz" in capsys.readouterr().err


def test_a_backend_that_refuses_every_case_fails(
    kit: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one whose compiler does not work; the reasons are printed, each once."""
    kit.refused = "cc: unknown option -mno-such-flag"
    assert kit.test("--kernels") == 1
    out = capsys.readouterr().out
    assert f"unsupported, {len(adds())} times: {kit.refused}\n" in out and "and more" not in out
    assert "nothing passed: every case was refused" in out and "--lf" not in out


def test_a_backend_that_refuses_some_cases_passes(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = adds()[0].name

    def check(case: Case, backend: Backend, target: Target) -> list[Outcome]:
        refused = case.name == first
        status, detail = ("unsupported", "no such thing") if refused else ("passed", "")
        return [Outcome(case.group, case.name, status, detail)]

    monkeypatch.setitem(RUN, "check", check)
    assert kit.test("--kernels") == 0
    out = capsys.readouterr().out
    assert "unsupported, 1 times: no such thing" in out and "nothing passed" not in out
