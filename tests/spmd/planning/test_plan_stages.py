"""`xlac plan` of models with stages: pipelines among the meshes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlac.cli import status

DEEP = """\
xlac: 1
model: deep
mesh: {data: null, stage: null}
pipeline: {axis: stage}
dims: {batch: {max: 4096, opt: 64}}
inputs: {x: "f32[batch, 512]"}
weights: {init: {seed: 0}}
graph:
  a: {op: linear, in: x, units: 512}
  b: {op: linear, in: relu(a), units: 512}
  c: {op: linear, in: relu(b), units: 512}
  d: {op: linear, in: relu(c), units: 512}
outputs: [d]
train:
  batch: batch
  accumulate: 8
  loss: mean(d * d)
  optimizer: {sgd: {lr: 0.01}}
"""


def plans(spec: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, tuple[str, str]]:
    """The predicted step and the memory of each mesh, the best first."""
    given = [str(spec), "--ranks", "4", "--target", "reference", "--entry", "step", *more]
    assert status(["plan", *given]) == 0
    lines = re.findall(
        r"^ +([\d.,]+ [mu]s) .* ([\d,]+) bytes  (data.*)$", capsys.readouterr().out, re.MULTILINE
    )
    return {mesh: (step, memory) for step, memory, mesh in lines}


def test_stages_are_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over a slow link, where sums of gradients take longer than the activations of eight small
    micro-batches do; over a fast one ranks that wait for one another take longer.
    """
    spec = tmp_path / "deep.yaml"
    spec.write_text(DEEP, "utf-8")
    slow = plans(spec, capsys, "--link", "0.1GB/s,5us", "--count", "3")
    assert list(slow) == ["data=1,stage=4", "data=2,stage=2", "data=4,stage=1"]
    memory = {mesh: int(told.replace(",", "")) for mesh, (_, told) in slow.items()}
    assert memory["data=1,stage=4"] < memory["data=4,stage=1"]
    quick = ("--link", "100GB/s,1us", "--device", "100Gflop/s,10TB/s")
    fast = plans(spec, capsys, *quick, "--count", "3")
    assert list(fast) == ["data=4,stage=1", "data=2,stage=2", "data=1,stage=4"]
    step = {mesh: float(told.split()[0]) for mesh, (told, _) in fast.items()}  # milliseconds
    even = 8 / (8 + 4 - 1)  # of four ranks, the share of time in which they compute
    assert step["data=4,stage=1"] / step["data=1,stage=4"] == pytest.approx(even, rel=0.06)
