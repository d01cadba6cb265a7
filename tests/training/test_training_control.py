"""Dropout and batch_norm inside of loops and branches: drawn anew each turn and step, the same on
every target; measured from turn to turn as PyTorch does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.training.trainer import Trainer
from xlac_sdk.source import UnsupportedError

DROP = """\
xlac: 1
model: drop
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 40]", choice: "i32[]"}
graph:
  w: {op: weight, type: "f32[40]"}
  steps:
    scan: {}
    length: 3
    carry: {n: {init: 0.0, type: "f32[]"}}
    body:
      kept: dropout(x * w, p=0.5)
      inner: {scan: {}, length: 2, carry: {k: {init: 0.0, type: "f32[]"}},
             body: {again: dropout(x * w, p=0.5)}, next: {k: k},
             stack: {r: again}}
    next: {n: n}
    stack: {a: kept, b: inner.r}
  loop:
    while: n < 3
    max: 5
    carry: {n: {init: 0, type: "i32[]"}, last: {init: x, type: "f32[batch, 40]"}}
    body: {kept: dropout(x * w, p=0.5)}
    next: {n: n + 1, last: kept}
  either: {cond: choice,
          branches: ["dropout(x * w, p=0.5)", "x * w", "x * w + dropout(x * w, p=0.25)"]}
  all: >-
    concat(reshape(steps.a, shape=[-1]), reshape(steps.b, shape=[-1]),
    reshape(loop.last, shape=[-1]), reshape(either, shape=[-1]), axis=0)
outputs: [all]
train:
  batch: batch
  loss: {sum: sum(all), count: f32(1.0)}
  metrics: {a: "sum(steps.a)", b: "sum(steps.b)", c: "sum(loop.last)", d: "sum(either)"}
  optimizer: {sgd: {lr: 1.0}}
  MORE
"""


def made(
    folder: Path, text: str, target: str = "reference", more: str = "", **options: Any
) -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text.replace("MORE", more))
    return xlac.trainer(file, target=target, **options)


def given(choice: int = 0, batch: int = 4) -> dict[str, Any]:
    return {"x": np.ones((batch, 40), np.float32), "choice": np.asarray(choice, np.int32)}


def gradients(trainer: Trainer, steps: int = 2, choice: int = 0) -> list[Any]:
    """What each step takes off w: how often each column was kept, as all else is one."""
    found = []
    for _ in range(steps):
        before = np.array(trainer.state()["w"])
        told = trainer.step(**given(choice))
        found.append(before - trainer.state()["w"])
        # what goes backwards was kept on the way there
        assert found[-1] @ before == pytest.approx(told["loss"], rel=1e-4)
    return found


@pytest.mark.parametrize("target", ["c", "cpu"])
@pytest.mark.sampled(4)
@pytest.mark.long
def test_the_same_everywhere(target: str, tmp_path: Path) -> None:
    one = gradients(made(tmp_path, DROP))
    other = gradients(made(tmp_path, DROP, target))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    if target == "cpu":
        again = gradients(made(tmp_path, DROP, target, threads=2))
        assert all(np.array_equal(a, b) for a, b in zip(other, again, strict=True))


def test_each_turn_and_step_draws_anew(tmp_path: Path) -> None:
    """Of 10 draws of 160 numbers each, about half are kept, and no two of the same."""
    first, second = gradients(made(tmp_path, DROP))
    assert not np.array_equal(first, second)
    rows = 3 + 6 + 1 + 1  # of the scan, the inner one, the last of the loop, the branch
    assert first.sum() == pytest.approx(2 * rows * 160 / 2, rel=0.1)
    # 44 draws of 0 or 2 in a column: 6.6; were turns alike, 13
    assert np.std(first) < 9


def test_a_branch_that_is_not_taken_draws_nothing(tmp_path: Path) -> None:
    drop, plain = (gradients(made(tmp_path, DROP), 1, c)[0] for c in (0, 1))
    assert np.array_equal((drop - plain) % 2, (0 * drop)) and not np.array_equal(drop, plain)
    assert np.abs(drop - plain).max() <= 4


def test_frozen_nodes_stay_as_they_are(tmp_path: Path) -> None:
    trainer = made(tmp_path, DROP, more='frozen_mode: ["steps.*", "loop.*", "either*"]')
    (found,) = gradients(trainer, 1)
    assert np.array_equal(found, np.full(40, 4.0 * 11))


def test_a_condition_that_draws_is_refused_with_its_place(tmp_path: Path) -> None:
    text = DROP.replace("while: n < 3", "while: (n < 3) & (sum(dropout(x, p=0.5)) > 0.0)")
    with pytest.raises(UnsupportedError, match="XL5033") as told:
        made(tmp_path, text)
    assert "m.yaml:20:" in str(told.value) and "dropout" in str(told.value)


NORM = """\
xlac: 1
model: norm
weights: {init: {seed: 1}}
inputs: {x: "f64[3, 6, 5]", choice: "i32[]"}
graph:
  w: {op: weight, type: "f64[5]"}
  steps:
    scan: {row: x}
    body: {y: {op: batch_norm, in: row * w, axis: -1, momentum: 0.3, affine: false}}
    stack: {y: y}
  either:
    cond: choice
    with: {v: "reshape(x, shape=[18, 5]) * w"}
    branches:
    - {body: {n: {op: batch_norm, in: v, axis: -1, affine: false}}, outputs: {o: n}}
    - {outputs: {o: v}}
outputs: {y: steps.y, e: either.o}
train:
  loss: mean(steps.y ** 3.0) + 0.1 * sum(either.o ** 3.0)
  optimizer: {sgd: {lr: 1.0}}
"""


@pytest.mark.parametrize("choice", [0, 1])
@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
def test_batch_norm_in_loops_beside_torch(target: str, choice: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    trainer = made(tmp_path, NORM, target)
    state = {
        n: torch.tensor(np.array(a))
        for n, a in trainer.state().items()
        if n.startswith(("w", "steps", "either"))
    }
    x = np.random.default_rng(0).normal(size=(3, 6, 5))
    w = state["w"].requires_grad_()
    mean, variance = state["steps.y.mean"], state["steps.y.variance"]
    rows = [
        torch.nn.functional.batch_norm(
            torch.tensor(row) * w, mean, variance, training=True, momentum=0.3
        )
        for row in x
    ]
    flat = torch.tensor(x.reshape(18, 5)) * w
    e_mean, e_variance = state["either.0.n.mean"], state["either.0.n.variance"]
    e = flat if choice else torch.nn.functional.batch_norm(flat, e_mean, e_variance, training=True)
    loss = (torch.stack(rows) ** 3).mean() + 0.1 * (e**3).sum()
    loss.backward()
    told = trainer.step(x=x, choice=np.asarray(choice, np.int32))
    assert told["loss"] == pytest.approx(loss.item(), rel=1e-12)
    after = trainer.state()
    np.testing.assert_allclose(after["w"], (w - w.grad).detach(), rtol=1e-9, atol=1e-12)
    for name, wanted in {
        "steps.y.mean": mean,
        "steps.y.variance": variance,
        "either.0.n.mean": e_mean,
        "either.0.n.variance": e_variance,
    }.items():
        np.testing.assert_allclose(after[name], wanted, rtol=1e-12, atol=1e-14)


LOOP = """\
xlac: 1
model: loop
dims: {batch: {max: 8}}
weights: {init: {seed: 3}}
ops:
  quantized:
    inputs: {x: "f32[*S]"}
    outputs: {y: "f32[*S]"}
    expr: {y: round(x * 16.0) / 16.0}
    gradient: {d_x: "where(abs(x) < 8.0, d_y, zeros_like(d_y))"}
inputs: {x: "f32[batch, 8]", y: "f32[batch, 8]"}
graph:
  w: {op: weight, type: "f32[8, 8]"}
  fixed:
    while: (change > 1e-3) & (steps < 9)
    max: 10
    carry: {h: x, change: {init: 1.0, type: "f32[]"}, steps: {init: 0, type: "i32[]"}}
    body:
      new: tanh(quantized(dropout(matmul(h, w), p=0.1)) + x)
      moved: reduce_max(abs(new - h))
    next: {h: new, change: moved, steps: steps + 1}
outputs: {h: fixed.h}
train:
  batch: batch
  loss: mean((fixed.h - y) ** 2.0)
  optimizer: {sgd: {lr: 0.1}}
  MORE
"""


@pytest.mark.parametrize("compute", ["f32", "bf16"])
@pytest.mark.sampled(4)
def test_all_of_it_together(compute: str, tmp_path: Path) -> None:
    """A loop with a bound whose body draws, and declares a gradient, in both precisions."""
    rng = np.random.default_rng(0)
    data = {n: rng.normal(size=(4, 8)).astype(np.float32) for n in "xy"}
    losses = {}
    for target in ("reference", "c", "cpu"):
        trainer = made(tmp_path, LOOP, target, f"compute: {compute}")
        losses[target] = [trainer.step(**data)["loss"] for _ in range(3)]
    assert losses["c"] == pytest.approx(
        losses["reference"], rel=1e-3 if compute == "bf16" else 1e-5
    )
    assert losses["cpu"] == pytest.approx(
        losses["reference"], rel=1e-3 if compute == "bf16" else 1e-5
    )
