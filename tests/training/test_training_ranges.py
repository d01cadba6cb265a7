"""Class labels and rows of embeddings that do not exist: a trainer refuses the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: m
weights: {init: {seed: 0}}
dims: {batch: {max: 8}}
inputs: {word: "i32[batch]", label: "i64[batch]"}
graph:
  e: {op: embedding, in: word, count: 10, dim: 4}
  h: {op: linear, in: e, units: 3}
outputs: [h]
train:
  batch: batch
  ema: {decay: 0.5}
  loss: mean(cross_entropy(h, label, ignore=-1))
  optimizer: {sgd: {lr: 0.1}}
"""
GOOD = {"word": np.int32([0, 9, 3]), "label": np.int64([2, -1, 0])}


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"label": np.int64([2, 3, 0])}, "input 'label' is 3 at [1], and its range is 0..2, or -1"),
        ({"label": np.int64([-2, 0, 0])}, "input 'label' is -2 at [0]"),
        ({"label": np.int64([0, 0, 1 << 40])}, "input 'label' is 1099511627776 at [2]"),
        ({"word": np.int32([0, 10, 3])}, "input 'word' is 10 at [1], and its range is 0..9"),
        ({"word": np.int32([-1, 0, 3])}, "input 'word' is -1 at [0]"),
    ],
)
def test_numbers_out_of_range_change_nothing(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC)
    trainer = xlac.trainer(path, target="reference")
    trainer.step(**GOOD)
    before = trainer.state()
    for call in (trainer.step, trainer.evaluate, trainer.ema.evaluate):
        with pytest.raises(SourceError) as raised:
            call(**{**GOOD, **wrong})
        (found,) = raised.value.diagnostics
        assert found.code == "XL6307" and said in found.message
    after = trainer.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    trainer.step(**GOOD)
