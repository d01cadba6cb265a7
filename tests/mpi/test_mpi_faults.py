"""Ranks that die or stop: all others end, and say which one. `make test-mpi`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from mpirun import ROOT, lives, pids, started

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
    waiting = re.findall(r"error: rank (\d) .* in collective .*XL7813", said)
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
