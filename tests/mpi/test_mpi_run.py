"""Models among processes that mpirun starts: `make test-mpi`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mpirun import ROOT, alone, mpirun

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


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "big.yaml"
    path.write_text(BIG, "utf-8")
    return path


@pytest.mark.parametrize(("count", "mesh"), [(2, "data=1"), (2, "data=2,model=1"), (4, "data=2")])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_ranks_compute_what_one_process_does(
    spec: Path, tmp_path: Path, count: int, mesh: str, target: str
) -> None:
    given = ("--dim", "batch=3", "--seed", "5", "--target", target)  # parts are not equal
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
    spec.write_text(BIG.replace("axes: [data, null]", "axes: [dta, null]"), "utf-8")
    ran = mpirun(2, "run", spec, "--mesh", "data=2,model=1")
    assert ran.returncode == 2
    assert ran.stderr.count("no axis 'dta'") == 1
    assert "big.yaml:" in ran.stderr


def test_as_many_processes_as_the_mesh_has(spec: Path) -> None:
    ran = mpirun(3, "run", spec, "--mesh", "data=2")
    assert ran.returncode != 0
    assert ran.stderr.count("mesh data=2,model=2 has 4 ranks, and 3 processes were started") == 1


def test_a_process_without_launcher(spec: Path) -> None:
    ran = alone("run", spec, "--mesh", "data=2")
    assert ran.returncode == 3
    assert "no launcher of MPI started this process" in ran.stderr


def test_a_rank_with_a_nan_makes_extremes_nan(tmp_path: Path) -> None:
    """MPI's own maximum of a NaN and a number is one or the other."""
    file = tmp_path / "extremes.yaml"
    file.write_text(
        "xlac: 1\nmesh: {data: null}\ninputs: {x: 'f32[4, 3]'}\n"
        "graph:\n  h: {op: shard, in: x, axes: [data, null]}\n"
        "  most: {op: reduce, in: h, axes: [0], combine: max}\n"
        "  least: {op: reduce, in: h, axes: [0], combine: min}\noutputs: [most, least]\n"
    )
    x = np.float32([[1, np.nan, -0.0], [3, 4, -0.0], [5, 2, 0], [np.nan, 8, -0.0]])
    np.save(tmp_path / "x.npy", x)
    given = (file, "--mesh", "data=2", "--input", f"x=@{tmp_path / 'x.npy'}")
    ran = mpirun(2, "run", *given, "--outputs", tmp_path / "y.npz")
    assert ran.returncode == 0, ran.stderr
    found = np.load(tmp_path / "y.npz")
    np.testing.assert_array_equal(found["most"], x.max(axis=0))
    np.testing.assert_array_equal(found["least"], x.min(axis=0))
    assert not np.signbit(found["most"][2]) and np.signbit(found["least"][2])
