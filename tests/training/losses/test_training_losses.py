"""Means of losses of classes: what counts in a batch, what data may hold, what is a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.spec.load import load_training
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: words
dims: {{batch: {{max: 64}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f64[batch, 4, 5]", y: "i64[batch, 4]", rare: "f64[3]"}}
graph:
  out: {{op: linear, in: x, units: 3}}
outputs: [out]
train:
  batch: batch
  loss: {loss}
  metrics: {{again: "mean(cross_entropy(out, y, ignore=-100))"}}
  optimizer: {{sgd: {{lr: 0.5}}}}
"""


def made(folder: Path, loss: str, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(SPEC.format(loss=loss))
    return Trainer(file, target=target)


def batch(seed: int, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, (size, 4))
    labels[labels < 0] = -100
    return {"x": rng.normal(size=(size, 4, 5)), "y": labels, "rare": np.array([1.0, 2.5, 0.25])}


def test_means_of_batches_are_the_mean_of_all(tmp_path: Path) -> None:
    """Whatever the sizes of batches, and how many of their labels count."""
    trainer = made(tmp_path, "mean(cross_entropy(out, y, rare, ignore=-100))")
    whole = batch(3, 9)
    parts = [{**whole, **{n: whole[n][at] for n in "xy"}} for at in (slice(0, 2), slice(2, 9))]
    sums = [trainer.run_evaluate(part) for part in parts]
    for name in ("loss", "again"):
        total, count = (sum(one[name][n] for one in sums) for n in (0, 1))
        assert total / count == pytest.approx(trainer.evaluate(**whole)[name], rel=1e-6)
    whole["y"][:] = -100
    assert trainer.run_step(whole)["loss"] == (0.0, 0.0)  # nothing counts, and nothing is learned


def test_data_may_hold_what_the_loss_ignores(tmp_path: Path) -> None:
    trainer = made(tmp_path, "mean(cross_entropy(out, y, ignore=-100))")
    data = batch(0, 8)
    run = xlac.train(trainer, data, tmp_path / "run", epochs=1, batch=4)
    assert np.isfinite(run.metrics[-1]["loss"])
    for wrong in (-1, -99, 3):
        data["y"][5, 2] = wrong
        problem = rf"row 5: input 'y' is {wrong} at \[2\], and its range is 0\.\.2, or -100.*XL6307"
        with pytest.raises(SourceError, match=problem):
            xlac.train(trainer, data, tmp_path / "other", epochs=1, batch=4)
    strict = made(
        tmp_path, "mean(cross_entropy(out, y))"
    )  # the metric ignores what the loss does not
    with pytest.raises(SourceError, match=r"is -100 .*0\.\.2 .*XL6307"):
        xlac.train(strict, batch(0, 8), tmp_path / "other", epochs=1, batch=4)


def test_a_checked_program_names_a_label_that_is_neither(tmp_path: Path) -> None:
    loss = lambda x, t: xlac.cross_entropy(x, t, ignore=-1)
    checked = xlac.jit(loss, checked=True)
    x = np.random.default_rng(0).normal(size=(6, 5))
    assert np.isfinite(checked(x, np.array([0, -1, 2, -1, 4, 1])))
    with pytest.raises(Exception, match="index 7 is outside"):
        checked(x, np.array([0, -1, 7, -1, 4, 1]))


@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        ("cross_entropy(out, y, smoothing=1.5)", "XL2009", "smoothing of cross_entropy is 0 to 1"),
        ("cross_entropy(out, out, ignore=1)", "XL2009", "are probabilities"),
        ("cross_entropy(out, u8(y), ignore=-100)", "XL2009", "no u8 is -100"),
        ("cross_entropy(out, y, out)", "XL2009", "a weight for each of 3 classes"),
        ("cross_entropy(out, y, ignore=0.5)", "XL2006", "ignore of cross_entropy"),
        ("cross_entropy(out, y, ignored=1)", "XL2005", "did you mean 'ignore'"),
        ("cross_entropy(out, y, ignore_index=1)", "XL2005", "did you mean 'ignore'"),
        ("cross_entropy(out, y, label_smoothing=0.1)", "XL2005", "did you mean 'smoothing'"),
        ("cross_entropy(out, y, weight=rare)", "XL2005", "did you mean 'weights'"),
    ],
)
def test_mistakes(call: str, code: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(SPEC.format(loss=call))
    with pytest.raises(SourceError) as wrong:
        load_training(file)
    assert "m.yaml:11:" in str(wrong.value)
    assert f"[{code}]" in str(wrong.value)
    assert told in str(wrong.value)
