"""A model's own `state` in training: carried from step to step, from one evaluation to the next and
from one call to the next, each by itself; beside the same steps in NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """
xlac: 1
model: carrier
weights: {init: {seed: 1}}
dims: {batch: 4}
inputs: {x: "f64[batch, 3]", y: "f64[batch, 2]"}
state:
  h: {type: "f64[batch, 2]", next: h1}
  calls: {type: "i32[]", init: 5, next: calls + 1}
graph:
  a: {op: linear, in: x, units: 2, bias: false}
  c: {op: linear, in: h, units: 2, bias: false}
  h1: tanh(a + c)
outputs: {h1: h1, number: calls}
train:
  loss: mean((h1 - y) ** 2.0)
  optimizer: {sgd: {lr: 0.5}}
"""
RATE, ROWS = 0.5, 4


class Steps:
    """The same in NumPy: no gradient goes to the step before."""

    def __init__(self, trainer: Trainer) -> None:
        weights = trainer.weights()
        self.a, self.c = weights["a.weight"], weights["c.weight"]
        self.h = np.zeros((ROWS, 2))

    def forward(self, x: Any, y: Any, h: Any) -> tuple[Any, float]:
        after = np.tanh(x @ self.a.T + h @ self.c.T)
        return after, float(((after - y) ** 2).mean())

    def step(self, x: Any, y: Any) -> float:
        after, loss = self.forward(x, y, self.h)
        inner = 2 * (after - y) / after.size * (1 - after**2)
        self.a, self.c = self.a - RATE * inner.T @ x, self.c - RATE * inner.T @ self.h
        self.h = after
        return loss


def batch(seed: int, rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 3)), "y": rng.uniform(-1, 1, (rows, 2))}


def made(folder: Path, text: str = SPEC, **options: Any) -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text)
    return xlac.trainer(file, **{"target": "reference", **options})


@pytest.mark.parametrize("target", ["reference", "cpu", "c"])
def test_each_kind_of_call_carries_its_own(target: str, tmp_path: Path) -> None:
    trainer = made(tmp_path, target=target)
    expected = Steps(trainer)
    evaluated = called = np.zeros((ROWS, 2))
    for seed in range(5):
        given = batch(seed)
        np.testing.assert_allclose(trainer.step(**given)["loss"], expected.step(**given), 1e-12)
        other = batch(100 + seed)
        evaluated, loss = expected.forward(**other, h=evaluated)
        np.testing.assert_allclose(trainer.evaluate(**other)["loss"], loss, 1e-12)
        called, _ = expected.forward(**other, h=called)
        results = trainer(x=other["x"])
        np.testing.assert_allclose(results["h1"], called, 1e-12)
        assert results.keys() == {"h1", "number"} and results["number"] == 5 + seed
    state = trainer.state()
    np.testing.assert_allclose(state["h"], expected.h, 1e-12)
    assert state["calls"] == 10 and not [name for name in state if "evaluate" in name]
    assert trainer.carries == ("h", "calls")


def test_a_sequence_begins(tmp_path: Path) -> None:
    trainer, given = made(tmp_path), batch(0)
    first = trainer.evaluate(**given), trainer(x=given["x"])
    assert trainer.evaluate(**given) != first[0]
    trainer.begin_sequence("evaluate")
    trainer.begin_sequence("run")
    again = trainer.evaluate(**given), trainer(x=given["x"])
    assert again[0] == first[0] and again[1]["number"] == 5
    np.testing.assert_array_equal(again[1]["h1"], first[1]["h1"])
    expected = Steps(trainer)
    for seed in range(3):
        trainer.step(**batch(seed))
        expected.step(**batch(seed))
    trainer.begin_sequence()
    expected.h[:] = 0
    assert trainer.step(**given)["loss"] == pytest.approx(expected.step(**given), rel=1e-12)
    with pytest.raises(SourceError, match=r"kind of call must be step, evaluate or run"):
        trainer.begin_sequence("steps")
    model = trainer.model()
    assert model(x=given["x"])["number"] == 5, "the model for inference begins its own sequence"


def test_a_step_that_fails_carries_nothing(tmp_path: Path) -> None:
    trainer = made(tmp_path, target="cpu")
    for seed in range(2):
        trainer.step(**batch(seed))
    before, wrong = trainer.state(), batch(2)
    wrong["y"][1, 1] = np.nan  # which h does not see
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert all(np.array_equal(before[name], array) for name, array in trainer.state().items())
    first = trainer.step(**batch(3))
    trainer.restore(before)
    assert trainer.step(**batch(3)) == first


def test_saved_and_loaded(tmp_path: Path) -> None:
    one, other = made(tmp_path), made(tmp_path)
    for seed in range(3):
        one.step(**batch(seed))
    one.save(tmp_path / "kept")
    other.load(tmp_path / "kept")
    assert other.step(**batch(3)) == one.step(**batch(3))
    one.reset()
    assert not one.state()["h"].any() and one.state()["calls"] == 0


def test_averages_are_evaluated_over_what_evaluations_carry(tmp_path: Path) -> None:
    trainer = made(tmp_path, f"{SPEC}  ema: {{decay: 0.5}}\n")
    expected, given = Steps(trainer), batch(9)
    trainer.step(**batch(0))
    kept = trainer.ema.weights()
    expected.a, expected.c = kept["a.weight"], kept["c.weight"]
    h, first = expected.forward(**given, h=np.zeros((ROWS, 2)))
    assert trainer.ema.evaluate(**given)["loss"] == pytest.approx(first, rel=1e-12)
    _, second = expected.forward(**given, h=h)
    assert trainer.ema.evaluate(**given)["loss"] == pytest.approx(second, rel=1e-12)
    assert trainer.ema(x=given["x"])["number"] == 5


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "dims: {batch: 4}",
            "dims: {batch: {min: 1, max: 8}}",
            r"(?s)m\.yaml:8:3: error: state 'h' is f64\[batch, 2\].*XL2057.*--dim batch=",
        ),
        (
            "  loss:",
            "  accumulate: 2\n  batch: rows\n  loss:",
            r"(?s)m\.yaml:8:3: error: state 'h' is carried from step to step, .*XL2057",
        ),
    ],
)
def test_what_steps_cannot_carry(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = SPEC.replace(old, new)
    if "rows" in new:  # open, in what is not carried
        text = text.replace("dims: {batch: 4}", "dims: {batch: 4, rows: {min: 1, max: 8}}")
        text = text.replace('y: "f64[batch, 2]"', 'y: "f64[batch, 2]", z: "f64[rows]"')
        text = text.replace("loss: mean((h1 - y) ** 2.0)", "loss: mean(z) * mean((h1 - y) ** 2.0)")
    with pytest.raises(SourceError, match=told):
        made(tmp_path, text)


def test_a_run_begins_each_pass_over_data_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two epochs with validation, in one go and in the middle of the second; and by hand."""
    train, valid = batch(1, 5 * ROWS), batch(2, 2 * ROWS)
    np.savez(tmp_path / "train.npz", **train)
    np.savez(tmp_path / "valid.npz", **valid)
    by_hand = made(tmp_path)
    first = ["train", f"{tmp_path / 'm.yaml'}", "--target", "reference", "--epochs", "2"]
    data = ["--data", f"{tmp_path / 'train.npz'}", "--validate", f"{tmp_path / 'valid.npz'}"]
    order = ["--no-shuffle"]
    assert status([*first, *data, *order, "-o", f"{tmp_path / 'whole'}"]) == 0
    assert "carries" not in capsys.readouterr().err
    assert status([*first, *data, *order, "-o", f"{tmp_path / 'run'}", "--max-steps", "7"]) == 0
    assert status(["train", "--resume", f"{tmp_path / 'run'}", "--max-steps", "10"]) == 0

    def parts(arrays: dict[str, Any]) -> list[dict[str, Any]]:
        whole = range(0, len(arrays["x"]), ROWS)
        return [{n: a[at : at + ROWS] for n, a in arrays.items()} for at in whole]

    losses = []
    for _ in range(2):
        by_hand.begin_sequence()
        losses.append(np.mean([by_hand.step(**part)["loss"] for part in parts(train)]))
        by_hand.begin_sequence("evaluate")
        losses.append(np.mean([by_hand.evaluate(**part)["loss"] for part in parts(valid)]))
    for folder in ("whole", "run"):
        table = np.genfromtxt(tmp_path / folder / "metrics.csv", delimiter=",", names=True)
        told = [row[name] for row in table[-2:] for name in ("loss", "validate_loss")]
        np.testing.assert_allclose(told, losses, 1e-9, err_msg=folder)
    capsys.readouterr()
    assert status([*first, *data, "-o", f"{tmp_path / 'mixed'}"]) == 0
    assert "carries h, calls from batch to batch, and --no-shuffle" in "".join(capsys.readouterr())
