"""Ranks that die or stop: all others end, and say which one. `make test-mpi`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpirun import ENVIRONMENT, ROOT, lives, pids, started

GIVEN = ("train", ROOT / "specs" / "digits_train.yaml", "--epochs", "100000", "--batch", "30")
DATA = ("--data", ROOT / "specs" / "data" / "digits_train.npz")


def running(count: int, run: Path, limit: int) -> subprocess.Popen[str]:
    """Training among ranks that has come to its second epoch."""
    mesh = ("--mesh", f"data={count}", "--timeout", str(limit))
    process = started(count, *GIVEN, *DATA, "-o", run, *mesh)
    assert process.stderr is not None
    while "epoch 1/" not in process.stderr.readline():
        assert process.poll() is None
    return process


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_stops_is_named_by_all_others(tmp_path: Path, stopped: int) -> None:
    process = running(3, tmp_path / "run", 5)
    time.sleep(0.2)
    os.kill(pids(process)[stopped], signal.SIGSTOP)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    # in a collective, or for a message of rank 0, whichever comes next
    waiting = re.findall(r"error: rank (\d) .* has waited for .*XL7813", said)
    others = {"0", "1", "2"} - {str(stopped)}
    assert set(waiting) == others, said
    silent = re.findall(r"rank (\d) \(.*\) does not answer", said)
    assert set(silent) == {str(stopped)}, said


def test_a_rank_that_is_killed_ends_all(tmp_path: Path) -> None:
    process = running(2, tmp_path / "run", 300)
    ranks = pids(process)
    os.kill(ranks[1], signal.SIGKILL)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert time.monotonic() - began < 60
    assert "rank 1" in said
    while any(map(lives, ranks.values())):  # mpirun does not wait for those that it ends
        assert time.monotonic() - began < 60
        time.sleep(0.1)


def late(where: str, rank: int, limit: float) -> tuple[int, str, str]:
    """Three ranks of which one stops at a place: exit code, output and messages."""
    script = str(Path(__file__).with_name("late_ranks.py"))
    command = ["mpirun", "-n", "3", sys.executable, script, where, str(rank), str(limit)]
    ran = subprocess.run(
        command,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


PLACES = {
    "begin": (1, "all ranks to begin"),
    "work": (0, "rank 0 to compile"),
    "group": (2, "all ranks to have their programs"),
    "end": (1, "all ranks to end"),
}


@pytest.mark.parametrize("where", PLACES)
def test_a_rank_that_never_comes_is_waited_for_as_long_as_is_stated(where: str) -> None:
    missing, what = PLACES[where]
    code, _, said = late(where, missing, 3)
    assert code == 4, said
    waiting = re.findall(rf"error: rank (\d) .* has waited for .* for {what} \[XL7813\]", said)
    assert waiting and str(missing) not in waiting, said
    if where != "begin":  # before MPI has begun nobody can be asked
        assert set(re.findall(r"rank (\d) \(.*\) does not answer", said)) == {str(missing)}


def test_a_rank_that_works_for_longer_than_the_limit_is_waited_for() -> None:
    code, out, said = late("slow", 0, 2)
    assert code == 0, said
    assert sorted(out.split("\n")) == ["", "ended 0", "ended 1", "ended 2"]
