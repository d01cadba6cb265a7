"""Loops that exchange values in each turn, among processes and in C: `make test-mpi`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_ranks import built, ranks_give
from mpirun import alone, mpirun

LOOPS = """\
xlac: 1
model: recurrent
mesh: {model: 2}
shard: {rnn.p.weight: [model, null]}
inputs: {x: "f32[5, 4, 8]", start: "f32[4, 8]"}
weights: {init: {seed: 0}}
graph:
  rnn:
    scan: {x_t: x}
    carry: {h: start}
    body:
      p: {op: linear, in: h, units: 8, bias: false}
      h1: {op: shard, in: tanh(x_t + p), axes: [null, model]}
    next: {h: h1}
    stack: {y: h1}
  grown:
    while: (sum(v * v) < 40.0)
    carry: {v: rnn.h}
    body: {more: {op: shard, in: v * 1.3, axes: [null, model]}}
    next: {v: more}
outputs: {y: rnn.y, v: grown.v}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "recurrent.yaml"
    path.write_text(LOOPS, "utf-8")
    return path


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_exchange_in_each_turn(spec: Path, tmp_path: Path, ranks: int) -> None:
    """In equal parts, and not."""
    found = tmp_path / "found.npz"
    ran = mpirun(ranks, "run", spec, "--seed=5", f"--mesh=model={ranks}", "--outputs", found)
    assert ran.returncode == 0, ran.stderr
    compared = alone("run", spec, "--seed=5", "--expect", f"@{found}")
    assert compared.returncode == 0, compared.stdout


def test_c_exchanges_in_each_turn(spec: Path, tmp_path: Path) -> None:
    made = built(spec, tmp_path / "c", "--mesh=model=2")
    rng = np.random.default_rng(3)
    shapes = {"x": (5, 4, 8), "start": (4, 8)}
    inputs = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "found.npz", **ranks_give(tmp_path / "c", made, inputs))
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--input={name}=@{tmp_path / name}.npy" for name in inputs]
    compared = alone("run", spec, *given, "--expect", f"@{tmp_path / 'found.npz'}")
    assert compared.returncode == 0, compared.stdout + compared.stderr
