"""A model's own state as C trains it: steps, evaluations and calls carry their own each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_learner import Learner, pointer

import xlac
from xlac.cli import status

SPEC = """
xlac: 1
model: carrier
weights: {init: {seed: 1}}
inputs: {image: "f32[4, 3]", label: "f32[4, 2]"}
state:
  h: {type: "f32[4, 2]", next: h1}
  calls: {type: "i32[]", init: 5, next: calls + 1}
graph:
  a: {op: linear, in: image, units: 2, bias: false}
  c: {op: linear, in: h, units: 2, bias: false}
  h1: tanh(a + c)
outputs: {h1: h1, number: calls}
train:
  loss: mean((h1 - label) ** 2.0)
  metrics: {accuracy: mean(h1)}
  optimizer: {sgd: {lr: 0.5}}
"""


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_steps_evaluations_and_calls(target: str, tmp_path: Path) -> None:
    spec = tmp_path / "m.yaml"
    spec.write_text(SPEC)
    built = ["build", f"{spec}", "--target", target, "-o", f"{tmp_path / 'out'}"]
    assert status(built + (["--emit", "c,h"] if target == "c" else [])) == 0
    learner = Learner(tmp_path / "out", "carrier")
    trainer = xlac.trainer(spec, target=target)
    rng = np.random.default_rng(0)
    for turn in range(4):
        image, label = (rng.normal(size=(4, n)).astype(np.float32) for n in (3, 2))
        given = {"image": image, "label": label}
        for function in ("evaluate", "step", "evaluate"):
            answer, loss, accuracy = learner.batch(function, image, label)
            expected = getattr(trainer, function)(**given)
            assert (answer, loss) == (0, expected["loss"]) and accuracy == expected["accuracy"]
        h1, number = np.zeros((4, 2), np.float32), np.zeros((), np.int32)
        assert learner("run", pointer(image), pointer(h1), pointer(number)) == 0
        results = trainer(image=image)
        assert number == results["number"] == 5 + turn and h1.tobytes() == results["h1"].tobytes()
    kept, state = learner.state(), trainer.state()
    assert all(kept[name].tobytes() == array.tobytes() for name, array in state.items())
    assert learner("reset") == 0
    trainer.reset()
    assert learner.batch("step", image, label)[1] == trainer.step(**given)["loss"]
