"""Models among processes that mpirun starts: `make test-mpi`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WITHOUT = next((f"{tool} is missing" for tool in ("mpirun", "mpicc") if not shutil.which(tool)), "")

BIG = """\
xlac: 1
model: big
mesh: {data: null, model: 2}
shard: {"*.up.weight": [model, null], "*.down.weight": [null, model]}
dims: {batch: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[batch, 32]"}
weights: {init: {seed: 0}}
blocks:
  mlp:
    inputs: [x]
    graph:
      up: {op: linear, in: x, units: 64}
      a: gelu(up)
      down: {op: linear, in: a, units: 32}
      y: layer_norm(x + down)
    outputs: {y: y}
graph:
  h: {op: shard, in: x, axes: [data, null]}
  l: {block: mlp, in: h, repeat: 2}
outputs: {y: softmax(l), total: sum(l)}
"""


@pytest.fixture(autouse=True)
def _asked(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--mpi"):
        pytest.skip("starts processes by mpirun: make test-mpi")
    if WITHOUT:
        pytest.skip(WITHOUT)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "big.yaml"
    path.write_text(BIG, "utf-8")
    return path


def mpirun(count: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs xlac as ranks, more than there are cores if need be."""
    allowed = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    command = [
        "mpirun",
        "-n",
        str(count),
        sys.executable,
        str(ROOT / "cli.py"),
        *map(str, arguments),
    ]
    more = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    return subprocess.run(
        command,
        env={**os.environ, **allowed, **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def alone(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "cli.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(("count", "mesh"), [(2, "data=1"), (2, "data=2,model=1"), (4, "data=2")])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_ranks_compute_what_one_process_does(
    spec: Path, tmp_path: Path, count: int, mesh: str, target: str
) -> None:
    given = ("--dim", "batch=4", "--seed", "5", "--target", target)
    found = tmp_path / "found.npz"
    ran = mpirun(count, "run", spec, *given, "--mesh", mesh, "--outputs", found)
    assert ran.returncode == 0, ran.stderr
    assert f"on {count} ranks" in ran.stderr
    compared = alone("run", spec, *given, "--expect", f"@{found}")
    assert compared.returncode == 0, compared.stdout


def test_a_batch_of_an_lstm(tmp_path: Path) -> None:
    found = tmp_path / "y.npy"
    given = (ROOT / "specs" / "lstm_3x60.yaml", "--dim", "B=4", "--dim", "T=6")
    ran = mpirun(2, "run", *given, "--mesh", "data=2", "--output", f"y=@{found}")
    assert ran.returncode == 0, ran.stderr
    assert np.load(found).shape == (4, 6, 60)
    assert alone("run", *given, "--expect", f"y=@{found}").returncode == 0


def test_mistakes_are_reported_once(spec: Path) -> None:
    ran = mpirun(2, "run", spec, "--dim", "batch=3", "--mesh", "data=2,model=1")
    assert ran.returncode == 2
    assert ran.stderr.count("has no 2 equal parts") == 1
    assert "big.yaml:" in ran.stderr


def test_as_many_processes_as_the_mesh_has(spec: Path) -> None:
    ran = mpirun(3, "run", spec, "--mesh", "data=2")
    assert ran.returncode != 0
    assert ran.stderr.count("mesh data=2,model=2 has 4 ranks, and 3 processes were started") == 1


def test_a_process_without_launcher(spec: Path) -> None:
    ran = alone("run", spec, "--mesh", "data=2")
    assert ran.returncode == 3
    assert "no launcher of MPI started this process" in ran.stderr
