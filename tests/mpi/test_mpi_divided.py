"""Ways to divide models, among processes and in C that calls MPI: `make test-mpi`."""

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


ROWS = """\
xlac: 1
model: words
mesh: {model: 2}
shard: {rows.weight: [model, null]}
inputs: {ids: "i64[4, 6]"}
weights: {init: {seed: 0}}
graph:
  rows: {op: embedding, in: ids, count: 500, dim: 16}
  y: {op: linear, in: rows, units: 3}
outputs: [y]
"""

IMAGE = """\
xlac: 1
model: image
mesh: {model: 2}
shard: {x: [null, null, model, null]}
inputs: {x: "f32[2, 3, 16, 8]"}
weights: {init: {seed: 0}}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3, pad: 1}
  p: {op: max_pool2d, in: relu(c), kernel: 3, stride: 2, pad: 1}
  y: {op: conv2d, in: p, filters: 2, kernel: 3}
outputs: {y: y, total: mean(y)}
"""

SEQUENCE = """\
xlac: 1
model: sequence
mesh: {model: 2}
shard: {x: [null, model, null]}
inputs: {x: "f32[1, 1024, 32]"}
weights: {init: {seed: 0}}
graph:
  q: {op: linear, in: x, units: 32}
  k: {op: linear, in: x, units: 32}
  v: {op: linear, in: x, units: 32}
  y: {op: attention, in: {q: q, k: k, v: v}, heads: 4, causal: true}
outputs: [y]
"""
"""Two ranks are a ring; of three each has all keys."""

SPECS = {"loops": LOOPS, "rows": ROWS, "image": IMAGE, "sequence": SEQUENCE}


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.yaml"
    path.write_text(SPECS[request.param], "utf-8")
    return path


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_compute_what_one_process_does(spec: Path, tmp_path: Path, ranks: int) -> None:
    """In equal parts, and not."""
    found = tmp_path / "found.npz"
    ran = mpirun(ranks, "run", spec, "--seed=5", f"--mesh=model={ranks}", "--outputs", found)
    assert ran.returncode == 0, ran.stderr
    compared = alone("run", spec, "--seed=5", "--expect", f"@{found}")
    assert compared.returncode == 0, compared.stdout


def test_c_computes_what_one_process_does(spec: Path, tmp_path: Path) -> None:
    made = built(spec, tmp_path / "c", "--mesh=model=2")
    rng = np.random.default_rng(3)
    inputs = {}
    assert made.ranks is not None
    for tensor in made.inputs:
        shape, kind = made.ranks.arrays[tensor.name].shape, tensor.dtype.numpy
        drawn = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 500, shape)
        inputs[tensor.name] = drawn.astype(kind)
    np.savez(tmp_path / "found.npz", **ranks_give(tmp_path / "c", made, inputs))
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--input={name}=@{tmp_path / name}.npy" for name in inputs]
    compared = alone("run", spec, *given, "--expect", f"@{tmp_path / 'found.npz'}")
    assert compared.returncode == 0, compared.stdout + compared.stderr
