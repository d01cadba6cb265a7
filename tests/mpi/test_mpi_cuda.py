"""Ranks with GPUs, of which the driver and NCCL are stand-ins: `make test-mpi`."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from mpirun import alone, mpirun, pids, started
from small_training import DENSE

XLAC = Path(__file__).with_name("cuda_ranks.py")
SPEC = """\
xlac: 1
model: small
mesh: {data: null, model: 1}
shard: {"up.weight": [model, null], "down.weight": [null, model]}
dims: {batch: {min: 1, max: 8, opt: 4}}
inputs: {x: "f32[batch, 16]"}
weights: {init: {seed: 0}}
graph:
  up: {op: linear, in: x, units: 32}
  down: {op: linear, in: gelu(up), units: 16}
  y: layer_norm(x + down)
outputs: {y: softmax(y), total: sum(y), most: max(y)}
"""


@pytest.fixture(autouse=True)
def _gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setenv("STANDIN_DEVICES", "4")
    monkeypatch.setenv("STANDIN_NCCL_FOLDER", str(tmp_path))


def spec(folder: Path, text: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(text, "utf-8")
    return path


def losses(run: Path) -> list[float]:
    with (run / "metrics.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def rows(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    data = folder / "rows.npz"
    x = rng.standard_normal((24, 3)).astype(np.float32)
    np.savez(data, x=x, y=x[:, :2] * 2 - 1)
    return data


@pytest.mark.parametrize(("count", "mesh"), [(2, "data=2"), (4, "data=2,model=2")])
def test_ranks_with_gpus_compute_what_one_process_does(
    tmp_path: Path, count: int, mesh: str
) -> None:
    given = (spec(tmp_path, SPEC), "--dim", "batch=3", "--seed", "5")  # parts are not equal
    found = tmp_path / "found.npz"
    more = ("--target", "cuda", "--mesh", mesh, "--outputs", found)
    ran = mpirun(count, "run", *given, *more, program=XLAC)
    assert ran.returncode == 0, ran.stderr
    compared = alone("run", *given, "--expect", f"@{found}")
    assert compared.returncode == 0, compared.stdout
    assert not list(tmp_path.glob("nccl-*"))  # ranks have left their groups


def test_training_equals_that_of_one_process(tmp_path: Path) -> None:
    given = (spec(tmp_path, DENSE), "--data", rows(tmp_path), "--batch", "8", "--epochs", "2")
    one = alone("train", *given, "-o", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    more = ("--target", "cuda", "--mesh", "data=2")
    ran = mpirun(2, "train", *given, "-o", tmp_path / "run", *more, program=XLAC)
    assert ran.returncode == 0, ran.stderr
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)


def test_a_rank_that_stops_is_named(tmp_path: Path) -> None:
    given = (spec(tmp_path, DENSE), "--data", rows(tmp_path), "--batch", "8")
    more = ("--epochs", "100000", "--target", "cuda", "--mesh", "data=2", "--timeout", "4")
    process = started(2, "train", *given, "-o", tmp_path / "run", *more, program=XLAC)
    assert process.stderr is not None
    while "epoch 1/" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(pids(process)[1], signal.SIGSTOP)
    began = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert process.returncode == 4, said
    assert re.search(r"rank 0 \(.*\) has waited for .* XL7813", said.replace("[", " ")), said
    assert re.search(r"rank 1 \(.*\) does not answer", said), said


def test_an_error_of_nccl_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_NCCL_FAILS", "ncclAllReduce=6")
    given = (spec(tmp_path, SPEC), "--dim", "batch=4", "--target", "cuda", "--mesh", "data=2")
    ran = mpirun(2, "run", *given, program=XLAC)
    assert ran.returncode == 70, ran.stderr
    assert "NCCL reports: remote process exited or there was a network error" in ran.stderr
    assert "[XL7807]" in ran.stderr


def test_an_old_nccl_is_refused_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = (spec(tmp_path, SPEC), "--dim", "batch=4", "--target", "cuda", "--mesh", "data=2")
    monkeypatch.setenv("STANDIN_NCCL_VERSION", "21006")
    ran = mpirun(2, "run", *given, program=XLAC)
    assert ran.returncode == 3, ran.stderr
    assert ran.stderr.count("NCCL 21006 is too old") == 1


def test_more_ranks_than_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_DEVICES", "2")
    given = (spec(tmp_path, SPEC), "--dim", "batch=6", "--target", "cuda", "--mesh", "data=3")
    ran = mpirun(3, "run", *given, program=XLAC)
    assert ran.returncode != 0
    assert "rank number 2 of this machine has no GPU: there are 2" in ran.stderr
