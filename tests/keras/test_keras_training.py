"""A Keras model learns as a spec: imported, given a section `train`, and trained by xlac."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("h5py")
from keras_writer import archived

from xlac.cli import status

SECTION = """
train:
  batch: batch
  loss: mean(cross_entropy({result}, label))
  optimizer: {{adamw: {{lr: 0.05}}}}
"""


def test_an_imported_model_is_trained(tmp_path: Path) -> None:
    """An embedding with a mask, LSTM both ways, layer normalization and GRU: all of them learn."""
    model, spec, data = (tmp_path / name for name in ("text.keras", "text.yaml", "data.npz"))
    archived("mask_sequence", model)
    assert status(["import", str(model), "-o", str(spec)]) == 0
    text = spec.read_text()
    assert "sequential_2.layer_normalization_" in text and "op: embedding" in text  # by its layers
    text = text.replace("inputs:\n", 'inputs:\n  label: "i32[batch]"\n', 1)
    result = text.rpartition("outputs:\n  sequential_2: ")[2].strip()
    spec.write_text(text + SECTION.format(result=result))
    source = np.random.default_rng(0)
    words = source.integers(0, 7, (64, 5)).astype(np.int32)
    np.savez(data, x0=words, label=(words[:, 0] % 3).astype(np.int32))
    run = tmp_path / "run"
    asked = ["--data", str(data), "--batch", "16", "--epochs", "12", "-o", str(run)]
    assert status(["train", str(spec), *asked]) == 0
    with (run / "metrics.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses[-1] < losses[0] / 2
    assert (run / "weights.safetensors").is_file()
