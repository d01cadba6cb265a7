"""What a failed step names: the first number that is not finite and reaches the loss or a gradient,
not one that a `where` leaves out; and where that is not known, it says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.training.failures import culprit
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 64, opt: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 5]", y: "i64[batch]"}
graph:
  h: {op: linear, in: x, units: 7, bias: false}
  left: log(stop_gradient(abs(h)) * 0.0)
  safe: "where(abs(h) >= 0.0, h, left)"
  taken: EXPRESSION
  out: {op: linear, in: taken, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {adam: {lr: 0.01}}
"""
LINE = {"left": 8, "taken": 10}


def told(folder: Path, expression: str, line: str = "", **options: Any) -> str:
    """What a step says of a batch of which a row makes h 0."""
    (folder / "m.yaml").write_text(SPEC.replace("EXPRESSION", expression) + line)
    trainer = xlac.trainer(folder / "m.yaml", **{"target": "reference", **options})
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 5)).astype(np.float32), rng.integers(0, 3, 8)
    x[6] = 0
    with pytest.raises(SourceError, match="XL6031") as caught:
        trainer.step(x=x, y=y)
    return str(caught.value)


def test_an_infinity_that_is_left_out_is_not_named(tmp_path: Path) -> None:
    """`left` is infinite everywhere, and first."""
    found = told(tmp_path, "log(safe * safe)")
    assert f"m.yaml:{LINE['taken']}:" in found and "'taken'" in found and "'left'" not in found
    assert "infinity appears in the result of log, and no operand holds any at [6, 0]" in found


def test_one_that_is_taken_is(tmp_path: Path) -> None:
    found = told(tmp_path, "where(h == 0.0, left, safe)")
    assert f"m.yaml:{LINE['left']}:" in found and "at [6, 0]" in found  # where it is taken


def test_one_whose_derivative_is_not_finite_is(tmp_path: Path) -> None:
    """The loss is finite, the gradient of the branch that is not taken is 0 times infinity."""
    branch = '"where(h == 0.0, 0.0, sqrt(abs(safe)))"'
    found = told(tmp_path, branch.strip('"'), "  finite: true\n")
    assert "the gradients are not finite" in found and f"m.yaml:{LINE['taken']}:" in found
    assert "'left'" not in found


@pytest.mark.parametrize("why", ["large", "parts"])
@pytest.mark.long
def test_what_is_not_known_is_said(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "large":
        monkeypatch.setattr(culprit, "MOST_BYTES", 100)
    parts = {"accumulate": 2} if why == "parts" else {}
    found = told(tmp_path, "log(safe * safe)", **parts)
    assert "XL602" in found and "whether it reaches the loss is not known" in found
