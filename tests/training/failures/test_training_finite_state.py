"""A step writes all of the state or none: nothing that it computes is stored as NaN or infinity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.spec.load import load_training
from xlac.training.failures.replay import failure
from xlac.training.program import graphs_of
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 5]"}
graph:
  NODE
  out: {op: linear, in: n, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(out)
  optimizer: {adam: {lr: 0.01}}
  ema: {decay: 0.9}
"""


def begun(folder: Path, node: str, line: str, target: str) -> tuple[Trainer, dict[str, Any]]:
    """A trainer that has done a step, and its state."""
    (folder / "m.yaml").write_text(SPEC.replace("NODE", node) + f"  {line}\n")
    trainer = xlac.trainer(folder / "m.yaml", target=target)
    trainer.step(x=rows())
    return trainer, trainer.state()


def rows() -> Any:
    return np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)


def refused(trainer: Trainer, before: dict[str, Any], x: Any, told: str) -> None:
    """Asserts that a step with x fails, has written nothing, and that others succeed after it."""
    with pytest.raises(SourceError, match=told):
        trainer.step(x=x)
    after = trainer.state()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], name)
    assert trainer.steps_done == 1
    trainer.step(x=rows())
    for name, array in trainer.state().items():
        assert np.isfinite(array).all(), name


@pytest.mark.parametrize(
    "line",
    [
        "seed: 1",
        "clip: {norm: 1.0}",
        "finite: true",
        "loss_scale: dynamic",
        "loss_scale: 128.0",
        "accumulate: 2",
        "accumulate: 2\n  clip: {norm: 1.0}",
    ],
)
@pytest.mark.parametrize("target", ["reference", "c"])
@pytest.mark.sampled(8)
def test_running_statistics_that_overflow(line: str, target: str, tmp_path: Path) -> None:
    """Of the first micro-batch, where there are two. The loss and all gradients are finite, and a
    smaller loss scale would not help.
    """
    trainer, before = begun(tmp_path, "n: {op: batch_norm, in: x}", line, target)
    x = rows()
    x[1, 2] = 1e20
    place = "" if "accumulate" in line else ".*m.yaml:7.*'n'"
    refused(trainer, before, x, f"(?s)running statistics are not finite.*XL6031{place}")


@pytest.mark.parametrize("line", ["clip: {norm: 1.0}", "finite: true", "loss_scale: 128.0"])
def test_an_optimizer_state_that_overflows(line: str, tmp_path: Path) -> None:
    """Adam keeps the squares of gradients, which are finite themselves here."""
    trainer, before = begun(tmp_path, "n: x * 1.0", line, "reference")
    x = rows()
    x[:, 2] = 1e20
    refused(trainer, before, x, "(?s)the gradients are not finite.*XL6031")


def test_a_step_that_has_no_model_to_call_is_explained(tmp_path: Path) -> None:
    """Such is that of `xlac.torch_step`: the module is called by PyTorch."""
    _, state = begun(tmp_path, "n: relu(x)", "finite: true", "reference")
    graphs = graphs_of(*load_training(tmp_path / "m.yaml"))
    models = {"step": graphs.step, "evaluate": graphs.evaluate}
    given = {"x": np.full_like(rows(), np.nan)}
    calls = [("step", given)]
    for loss_finite, what in ((True, "the gradients are"), (False, "the loss is")):
        told = failure(models, {"target": "reference"}, state, given, calls, loss_finite, None)
        assert f"{what} not finite" in told.diagnostics[0].message
