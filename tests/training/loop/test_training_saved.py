"""`trainer.save` and `trainer.load`: a loop of the user's own goes on with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac.training.trainer import Trainer
from xlac_sdk.source import LimitError, SourceError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 16}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 3]", y: "i32[batch]"}
graph: {out: {op: linear, in: x, units: 4}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {adam: {lr: 0.1}}
  ema: {decay: 0.9}
"""


def made(folder: Path, text: str = SPEC) -> Trainer:
    (folder / "m.yaml").write_text(text)
    return xlac.trainer(folder / "m.yaml", target="reference")


def batch(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(6, 3)).astype("f4"), "y": rng.integers(0, 4, 6, np.int32)}


def test_going_on_from_what_was_saved(tmp_path: Path) -> None:
    trainer, again = made(tmp_path), made(tmp_path)
    for seed in range(3):
        trainer.step(**batch(seed))
        trainer.save(tmp_path / "run")  # over what was saved before
    names = {"checkpoint.safetensors", "weights.safetensors", "ema_weights.safetensors"}
    assert {p.name for p in (tmp_path / "run").iterdir()} == names
    weights = SafetensorsFile(tmp_path / "run" / "weights.safetensors")
    np.testing.assert_array_equal(weights["out.weight"], trainer.weights()["out.weight"])
    for place in ("run", "run/checkpoint.safetensors"):
        again.reset()
        again.load(tmp_path / place)
        assert again.steps_done == 3
        assert again.step(**batch(3))["loss"] != again.step(**batch(3))["loss"]
        again.load(str(tmp_path / place))
    assert [again.step(**batch(n)) for n in (3, 4)] == [trainer.step(**batch(n)) for n in (3, 4)]
    assert all(np.array_equal(a, again.state()[n]) for n, a in trainer.state().items())


def test_the_newest_checkpoint_of_a_run(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    rows = [batch(n) for n in range(4)]
    np.savez(tmp_path / "d.npz", **{n: np.concatenate([r[n] for r in rows]) for n in "xy"})
    spec, data, run = (str(tmp_path / n) for n in ("m.yaml", "d.npz", "run"))
    asked = ["--data", data, "--epochs", "2", "--batch", "6", "--target", "reference", "-o", run]
    assert status(["train", spec, *asked]) == 0
    trainer.load(run)
    assert trainer.steps_done == 8
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="XL6333"):
        trainer.load(run)
    assert trainer.steps_done == 4


def test_mistakes(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    trainer.save(tmp_path / "run")
    other = made(tmp_path, SPEC.replace("units: 4", "units: 5"))
    before = other.state()
    with pytest.raises(SourceError, match="XL6334"):
        other.load(tmp_path / "run")
    with pytest.raises(SourceError, match="XL6332"):
        other.load(tmp_path)
    with pytest.raises(SourceError, match="XL6333"):
        other.load(tmp_path / "nothing")
    file = tmp_path / "run" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(SourceError, match="XL6333"):
        trainer.load(tmp_path / "run")
    assert all(np.array_equal(a, other.state()[n]) for n, a in before.items())


def test_a_full_disk_leaves_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = made(tmp_path)
    trainer.save(tmp_path / "run")
    kept = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    trainer.step(**batch(0))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("xlac.training.loop.checkpoint.write_tensors", full)
    with pytest.raises(LimitError, match="XL4002"):
        trainer.save(tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == kept
