"""Ranks on two hosts, which are network namespaces, by TCP: `make test-mpi`, as root."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mpirun import alone, lives, mpirun, started
from namespaces import NOTICING, TwoHosts, two_hosts, without
from test_mpi_run import BIG
from test_mpi_train import BOUND, DATA, SPEC, digits, losses

TIMEOUT = 5


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    if reason := without():
        pytest.skip(reason)
    with two_hosts(tmp_path) as made:
        yield made


def test_results_are_those_of_one_process(tmp_path: Path, hosts: TwoHosts) -> None:
    spec, found = tmp_path / "big.yaml", tmp_path / "found.npz"
    spec.write_text(BIG, "utf-8")
    np.save(tmp_path / "x.npy", np.random.default_rng(3).standard_normal((8, 32), np.float32))
    given = (spec, "--dim", "batch=8", "--input", f"x=@{tmp_path / 'x.npy'}")
    mesh = ("--mesh", "data=2,model=2", "--outputs", found)
    ran = mpirun(4, "run", *given, *mesh, launcher=hosts.mpirun(4))
    assert ran.returncode == 0, ran.stderr
    compared = alone("run", *given, "--expect", f"@{found}")
    assert compared.returncode == 0, compared.stdout


def test_training_equals_that_of_one_process(tmp_path: Path, hosts: TwoHosts) -> None:
    spec = digits(tmp_path)
    given = ("train", spec, "--data", DATA, "--batch", "32", "--epochs", "1", "--allow-outside")
    ran = mpirun(2, *given, "-o", tmp_path / "two", "--mesh", "data=2", launcher=hosts.mpirun(2))
    assert ran.returncode == 0, ran.stderr
    assert alone(*given, "-o", tmp_path / "one").returncode == 0
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=BOUND)


@pytest.mark.parametrize("notices", [False, True])
def test_a_link_that_is_cut(tmp_path: Path, hosts: TwoHosts, notices: bool) -> None:
    """Every rank ends in the time that is stated, and names the other, or mpirun ends them where it
    notices first. mpirun itself ends where it notices: else it waits as long as TCP does.
    """
    launcher = hosts.mpirun(2, *(NOTICING if notices else ()))
    about = ("--data", DATA, "--epochs", "100000", "--batch", "30", "--timeout", str(TIMEOUT))
    given = ("train", SPEC, *about, "-o", tmp_path / "run", "--mesh", "data=2")
    process = started(2, *given, launcher=launcher)
    assert process.stderr is not None
    while "epoch 1/" not in process.stderr.readline():
        assert process.poll() is None
    ranks = hosts.pids()
    assert set(ranks) == {0, 1}
    hosts.cut()
    began = time.monotonic()
    while any(map(lives, ranks.values())):
        assert time.monotonic() - began < TIMEOUT + 30
        time.sleep(0.1)
    if notices:
        process.communicate(timeout=30)
        assert process.returncode != 0
        return
    hosts.end()  # mpirun with them
    _, said = process.communicate(timeout=30)
    assert re.search(r"rank 0 .* has waited for 5.\d s in collective .*XL7813", said), said
    assert re.search(r"rank 1 \(.*\) does not answer", said), said


def test_a_link_that_is_slow_or_cut_for_a_moment(tmp_path: Path, hosts: TwoHosts) -> None:
    """Nobody ends, and results are the same to the bit."""
    given = ("train", SPEC, "--data", DATA, "--epochs", "2", "--batch", "30", "--mesh", "data=2")
    undisturbed = mpirun(2, *given, "-o", tmp_path / "one", launcher=hosts.mpirun(2))
    assert undisturbed.returncode == 0, undisturbed.stderr
    hosts.shape(2e6)
    process = started(2, *given, "-o", tmp_path / "two", launcher=hosts.mpirun(2))
    assert process.stderr is not None
    while "epoch 0/" not in process.stderr.readline():
        assert process.poll() is None
    hosts.cut()
    time.sleep(1.5)
    hosts.mend()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    one, two = ((tmp_path / run / "weights.safetensors").read_bytes() for run in ("one", "two"))
    assert one == two
