"""Losses and metrics that are means of different numbers: each divides by its own total, whatever
the sizes of batches and micro-batches, and where one has nothing to count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.training.loop.steps import added, means
from xlac.training.trainer import Trainer

HEADS = """\
xlac: 1
model: heads
dims: {batch: {max: 64}}
weights: {init: {seed: 1}}
inputs:
  {x: "f64[batch, 5]", a: "i64[batch, 2]", b: "i64[batch]", t: "f64[batch, 3]", m: "f64[batch]"}
graph:
  h: {op: linear, in: x, units: 6}
  first: {op: linear, in: tanh(h), units: 6}
  second: {op: linear, in: tanh(h), units: 3}
  column: second[:, 0]
  la: cross_entropy(reshape(first, shape=[-1, 3]), reshape(a, shape=[-1]), ignore=-100)
  lb: cross_entropy(second, b, ignore=-100)
outputs: [second]
"""
ONE = """\
train:
  batch: batch
  loss: 2.0 * la - (0.5 * mean((second - t) ** 2.0) - lb / 4.0) + 0.01 * sum(h.weight * h.weight)
  metrics:
    masked: {sum: sum(column * m), count: sum(m)}
    both: la + lb
    plain: mean(second)
  optimizer: {adamw: {lr: 0.02}}
  clip: {norm: 0.5}
"""
TWO = """\
train:
  batch: batch
  order: together
  losses:
    one:
      loss: {sum: sum(column * column * m), count: sum(m)}
      wrt: ["second.*"]
      optimizer: {adam: {lr: 0.1}}
    two: {loss: la, wrt: ["h.*", "first.*"], optimizer: {sgd: {lr: 0.1, momentum: 0.9}}}
  metrics: {lb: lb, off: "mean((second - t) ** 2.0)"}
"""


def made(folder: Path, text: str, line: str = "", target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(f"{HEADS}{text}{line}")
    return xlac.trainer(file, target=target)


def batch(seed: int, rows: int, counts: str = "abm") -> dict[str, Any]:
    """Rows of which few count for each loss; nothing for one that is not in `counts`."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 3, (rows, 2)), rng.integers(0, 3, rows)
    a[rng.random((rows, 2)) < (0.6 if "a" in counts else 2)] = -100
    b[rng.random(rows) < (0.3 if "b" in counts else 2)] = -100
    m = (rng.random(rows) < (0.5 if "m" in counts else -1)).astype(np.float64)
    x, t = rng.normal(size=(rows, 5)), rng.normal(size=(rows, 3))
    return {"x": x, "a": a, "b": b, "t": t, "m": m}


def near(one: dict[str, Any], other: dict[str, Any], bound: float = 1e-6) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], bound, bound, err_msg=name)


@pytest.mark.parametrize("text", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("target", ["reference", "cpu", pytest.param("c", marks=pytest.mark.long)])
@pytest.mark.sampled(12)
@pytest.mark.long
def test_micro_batches_are_one_batch(text: str, target: str, tmp_path: Path) -> None:
    whole, parts = made(tmp_path, text), made(tmp_path, text, "  accumulate: 4\n", target)
    cases = [(16, "abm"), (13, "abm"), (3, "abm"), (9, "b"), (9, "am"), (1, "ab"), (7, "")]
    for seed, (rows, counts) in enumerate(cases):
        given = batch(seed, rows, counts)
        near(parts.evaluate(**given), whole.evaluate(**given))
        near(parts.step(**given), whole.step(**given))
    near(parts.state(), whole.state(), 1e-9)


def test_means_of_batches_are_the_mean_of_all(tmp_path: Path) -> None:
    trainer = made(tmp_path, ONE)
    data, sums = batch(3, 20), {}
    for rows in (slice(0, 9), slice(9, 10), slice(10, 20)):
        sums = added(
            sums, trainer.run_evaluate({name: array[rows] for name, array in data.items()})
        )
    near(means(sums), trainer.evaluate(**data))


def test_what_has_nothing_to_count_learns_nothing_and_the_others_do(tmp_path: Path) -> None:
    trainer = made(tmp_path, TWO)
    trainer.step(**batch(0, 8))
    before = trainer.state()
    found = trainer.step(**batch(1, 8, "m"))
    assert np.isfinite(found["one"]) and np.isnan(found["two"])
    after = trainer.state()
    moved = {name for name in before if not np.array_equal(before[name], after[name])}
    assert "second.weight" in moved and "optimizer.one.m.second.bias" in moved
    assert not {name for name in moved if "first" in name or "h." in name}
    assert trainer.steps_done == 2
    found = trainer.step(**batch(2, 8, ""))
    assert np.isnan([found["one"], found["two"]]).all() and trainer.steps_done == 2
    near(trainer.state(), after, 0)
