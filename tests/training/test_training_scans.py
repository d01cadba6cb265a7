"""Scans that keep every k-th carry for the way back, in specs: the same steps from less memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.frontends.loader import load
from xlac.training.trainer import Trainer
from xlac_sdk.source import LimitError, SourceError

SPEC = """\
xlac: 1
model: rnn
dims: {{batch: {{max: 8}}, T: {{max: 100, opt: 60}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f32[batch, T, 8]", y: "f32[batch, 16]"}}
graph:
  w: {{op: weight, type: "f32[16, 16]"}}
  v: {{op: weight, type: "f32[8, 16]"}}
  run:
    scan: {{row: x}}
    axis: 1
    {every}
    carry: {{h: {{init: "zeros([batch, 16])"}}}}
    body:
      a: tanh(matmul(h, w) + matmul(row, v))
      b: sigmoid(matmul(a, w))
    next: {{h: a * b}}
outputs: {{h: run.h}}
train:
  batch: batch
  loss: mean((run.h - y) ** 2.0)
  optimizer: {{sgd: {{lr: 0.5}}}}
"""


def made(folder: Path, every: str, target: str) -> Trainer:
    (folder / "m.yaml").write_text(SPEC.format(every=every))
    return xlac.trainer(folder / "m.yaml", target=target)


def data(steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(steps)
    return {
        "x": rng.normal(size=(4, steps, 8)).astype(np.float32),
        "y": rng.normal(size=(4, 16)).astype(np.float32),
    }


@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
@pytest.mark.parametrize("steps", [60, 7])
@pytest.mark.sampled(6)
@pytest.mark.long
def test_a_step_is_the_same(target: str, steps: int, tmp_path: Path) -> None:
    """Where chunks are whole, and where the last has fewer steps."""
    if target == "reference" and steps == 60:
        steps = 20
    states, arenas = [], []
    for every in ("", "checkpoint_every: 10"):
        trainer = made(tmp_path, every, target)
        for _ in range(2):
            trainer.step(**data(steps))
        states.append(trainer.state())
        arenas.append(max(p.program.arena_bytes for p in trainer._programs._compiled.values()))
    for name in ("w", "v"):
        np.testing.assert_allclose(states[0][name], states[1][name], rtol=2e-5, atol=1e-6)
    assert arenas[1] < arenas[0] / 2 or steps < 60, arenas


@pytest.mark.long
def test_a_limit_on_memory_keeps_fewer_carries(tmp_path: Path) -> None:
    """Where recomputing whole kernels does not help: the residuals of a loop are one value."""
    free = made(tmp_path, "", "cpu")
    given = data(60)
    free.step(**given)
    (program,) = (one.program for one in free._programs._compiled.values())
    said: list[str] = []
    limit = program.state_bytes + program.arena_bytes // 2
    bound = xlac.trainer(tmp_path / "m.yaml", max_memory=limit, tell=said.append)
    bound.step(**given)
    (limited,) = (one.program for one in bound._programs._compiled.values())
    assert limited.arena_bytes <= program.arena_bytes // 2
    assert limited.facts["recomputed"]["carries"] == {"run": 7}
    assert "steps of run (one carry of 7 is kept)" in said[0]
    assert 1.1 < limited.facts["recomputed"]["factor"] < 1.6
    for name in ("w", "v"):
        np.testing.assert_allclose(free.state()[name], bound.state()[name], rtol=2e-5, atol=1e-6)
    little = program.state_bytes + program.arena_bytes // 20
    with pytest.raises(LimitError, match=r"a call takes ([\d,]+) bytes at least") as caught:
        xlac.trainer(tmp_path / "m.yaml", max_memory=little).step(**given)
    least = re.search(r"takes ([\d,]+)", str(caught.value))
    assert least is not None
    assert int(least[1].replace(",", "")) < program.state_bytes + program.arena_bytes // 2


def test_it_is_written_back(tmp_path: Path) -> None:
    from xlac.exporters.spec.files import write

    text = SPEC.format(every="checkpoint_every: 4").partition("train:")[0]
    (tmp_path / "m.yaml").write_text(text)
    write(load(tmp_path / "m.yaml"), tmp_path / "again.yaml")
    assert "checkpoint_every: 4" in (tmp_path / "again.yaml").read_text()


def test_a_number_below_zero(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"m\.yaml:12:23: error: expected 0 to"):
        made(tmp_path, "checkpoint_every: -1", "reference")
