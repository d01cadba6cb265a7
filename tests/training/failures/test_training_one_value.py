"""A batch_norm whose channels have one value each in a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.source import UnsupportedError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[ROWS, 5]"}
graph:
  n: {op: batch_norm, in: x}
  out: {op: linear, in: n, units: 3}
outputs: [out]
train:
  loss: mean((out - 1.0) ** 2.0)
  optimizer: {sgd: {lr: 0.1}}
"""


def written(folder: Path, rows: str, more: str = "") -> Path:
    file = folder / "m.yaml"
    file.write_text(SPEC.replace("ROWS", rows) + more)
    return file


def test_one_that_is_always_so_is_refused_before_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = written(tmp_path, "1")
    with pytest.raises(UnsupportedError, match=r"(?s)m.yaml:7.*'n'.*one value a channel.*XL5034"):
        xlac.trainer(fixed, target="reference")
    assert status(["check", str(written(tmp_path, "batch")), "--dim", "batch=1"]) == 3
    assert "XL5034" in capsys.readouterr().err
    frozen = written(tmp_path, "1", "  frozen_mode: [n]\n")
    xlac.trainer(frozen, target="reference").step(x=np.ones((1, 5), np.float32))


@pytest.mark.parametrize("target", ["reference", "c"])
def test_a_last_batch_of_one_row_leaves_the_statistics_as_they_are(
    target: str, tmp_path: Path
) -> None:
    """As a batch of one pixel: the result is the bias, whatever the row."""
    trainer = xlac.trainer(written(tmp_path, "batch", "  batch: batch\n"), target=target)
    rng = np.random.default_rng(0)
    trainer.step(x=rng.normal(size=(8, 5)).astype(np.float32))
    before = trainer.state()
    trainer.step(x=rng.normal(size=(1, 5)).astype(np.float32))
    after = trainer.state()
    for name in ("n.mean", "n.variance"):
        np.testing.assert_array_equal(before[name], after[name])
    np.testing.assert_array_equal(before["n.weight"], after["n.weight"])
    assert (before["out.weight"] != after["out.weight"]).any()
    trainer.step(x=rng.normal(size=(2, 5)).astype(np.float32))
    assert (trainer.state()["n.variance"] != after["n.variance"]).all()
