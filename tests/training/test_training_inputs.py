"""The order of a step's inputs: in Python, in tuples of data, and in what `xlac build` writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.host.manifest import read

MODEL = """\
xlac: 1
model: small
dims: {batch: {max: 8, opt: 4}}
inputs: {INPUTS}
weights: {init: {seed: 1}}
graph:
  h: {op: linear, in: z + b, units: 3}
outputs: [h]
"""
TRAIN = """\
train:
  batch: batch
  loss: mean(cross_entropy(h, y)) + mean(a * c)
  metrics: {largest: max(h)}
  optimizer: {sgd: {lr: 0.1}}
"""
MODELS = "z: 'f32[batch, 5]', b: 'f32[batch, 5]'"
TRAINING = "y: 'i32[batch]', c: 'f32[batch]', a: 'f32[batch]'"
SHAPES = {"z": (4, 5), "b": (4, 5), "y": (4,), "c": (4,), "a": (4,)}


def included(folder: Path) -> Path:
    """Training includes the model, whose inputs are then read last."""
    (folder / "small.yaml").write_text(MODEL.replace("INPUTS", MODELS), "utf-8")
    spec = folder / "train.yaml"
    start = "xlac: 1\nmodel: learns\ninclude: [small.yaml]\n"
    spec.write_text(f"{start}inputs: {{{TRAINING}}}\n{TRAIN}", "utf-8")
    return spec


def mixed(folder: Path) -> Path:
    """One file, whose training has the first inputs."""
    spec = folder / "train.yaml"
    text = MODEL.replace("INPUTS", f"{TRAINING}, {MODELS}").replace("small", "learns")
    spec.write_text(text + TRAIN, "utf-8")
    return spec


@pytest.mark.parametrize("write", [included, mixed])
def test_the_models_inputs_come_first(write: Callable[[Path], Path], tmp_path: Path) -> None:
    spec = write(tmp_path)
    trainer = xlac.trainer(spec, target="reference")
    assert list(trainer.inputs) == ["z", "b", "y", "c", "a"]
    options = ["--target", "c", "--dim", "batch=4", "-o", str(tmp_path / "c")]
    assert status(["build", str(spec), *options]) == 0
    entries = read(tmp_path / "c").entries
    assert entries is not None
    for entry in entries.functions:
        assert [one.name for one in entry.inputs] == list(trainer.inputs), entry.name


def test_tuples_of_data_are_in_that_order(tmp_path: Path) -> None:
    spec = included(tmp_path)
    random = np.random.default_rng(2)
    batch = {n: random.standard_normal(s, np.float32) for n, s in SHAPES.items()}
    batch["y"] = random.integers(0, 3, 4).astype(np.int32)
    states = []
    for number, data in enumerate(([batch], [tuple(batch.values())])):
        trainer = xlac.trainer(spec, target="reference")
        xlac.train(trainer, data, tmp_path / f"run {number}", epochs=1)
        assert trainer.steps_done == 1
        states.append(trainer.state())
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])
