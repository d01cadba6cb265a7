"""A table of which a step reads few rows is updated row by row, as if it were updated whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.driver import lower, specialized
from xlac.ops.tensor.scatter import Scatter
from xlac.spec.load import load_training
from xlac.training import row_updates
from xlac.training.program import graphs_of
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Copy, walk
from xlac_sdk.target import Request

MODEL = """\
xlac: 1
model: m
weights: {{init: {{seed: 0}}}}
inputs: {{ids: "i32[6, 2]", y: "f32[6]"}}
graph:
  e: {{op: embedding, in: ids, count: {rows}, dim: 4}}
  out: reshape(sum(e, axis=[1, 2]), [6])
outputs: [out]
train:
  loss: mean((out - y) ** 2.0)
  optimizer: {optimizer}
  {more}
"""
BY_ROWS = {
    "sgd": "{sgd: {lr: 0.1}}",
    "cosine": "{sgd: {lr: {cosine: {peak: 0.1, steps: 10}}}}",
    "adagrad": "{adagrad: {lr: 0.1}}",
}
WHOLE = {
    "momentum": "{momentum: {lr: 0.1}}",
    "decay": "{sgd: {lr: 0.1, weight_decay: 0.1}}",
    "adam": "{adam: {lr: 0.1}}",
    "no eps": "{adagrad: {lr: 0.1, eps: 0.0}}",
}
IDS = np.array([[0, 3], [3, 3], [99, 0], [-1, 250], [50, 51], [3, 52]], np.int32)


def _spec(folder: Path, optimizer: str, more: str = "", rows: int = 100) -> Path:
    file = folder / "m.yaml"
    file.write_text(MODEL.format(optimizer=optimizer, more=more, rows=rows))
    return file


def _by_rows(spec: Path) -> bool:
    """Whether a step writes rows of the table."""
    step = specialized(graphs_of(*load_training(spec)).step)
    return isinstance(step.graph.outputs["e.weight.next"].op, Scatter)


@pytest.mark.parametrize("clip", ["", "clip: {norm: 0.5}", "clip: {value: 0.01}"])
@pytest.mark.parametrize("optimizer", BY_ROWS)
@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
@pytest.mark.sampled(8)
def test_equals_the_update_of_the_whole_table(
    target: str, optimizer: str, clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(tmp_path, BY_ROWS[optimizer], clip)
    y = np.linspace(-1, 1, 6, dtype=np.float32)
    found = []
    for few in (0.5, 0.0):
        monkeypatch.setattr(row_updates, "FEW", few)
        trainer = xlac.trainer(spec, target=target)
        for _ in range(3):
            trainer.run_step({"ids": IDS, "y": y})  # which takes numbers out of range
        found.append({name: np.array(value) for name, value in trainer.state().items()})
    for name, value in found[1].items():
        np.testing.assert_array_equal(found[0][name], value, err_msg=name)
        assert not np.array_equal(found[0]["e.weight"][3], found[0]["e.weight"][98])


@pytest.mark.parametrize("optimizer", BY_ROWS)
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_the_table_is_neither_copied_nor_read_whole(
    target: str, optimizer: str, tmp_path: Path
) -> None:
    spec = _spec(tmp_path, BY_ROWS[optimizer], rows=100_000)
    assert _by_rows(spec)
    step = specialized(graphs_of(*load_training(spec)).step)
    program = lower(step, find(target).target(Request(threads=1))).program
    steps = walk(program.steps)
    copied = {
        s.slot.name for one in steps if isinstance(one, Copy) for s in (one.source, one.target)
    }
    assert "e.weight" not in copied
    assert program.arena_bytes < 100_000 * 4 * 4  # a gradient as large as the table is nowhere


@pytest.mark.parametrize("optimizer", WHOLE.values(), ids=WHOLE)
def test_rows_without_a_gradient_may_change(optimizer: str, tmp_path: Path) -> None:
    assert not _by_rows(_spec(tmp_path, optimizer))


def test_most_of_the_rows_are_read(tmp_path: Path) -> None:
    assert not _by_rows(_spec(tmp_path, BY_ROWS["sgd"], rows=23))
    assert _by_rows(_spec(tmp_path, BY_ROWS["sgd"], rows=24))


@pytest.mark.parametrize("optimizer", BY_ROWS)
def test_a_step_that_is_not_finite_writes_no_row(optimizer: str, tmp_path: Path) -> None:
    trainer = xlac.trainer(_spec(tmp_path, BY_ROWS[optimizer]), target="cpu")
    before = trainer.state()
    before["e.weight"] = np.copysign(before["e.weight"] * (np.arange(4) > 1), -1.0)
    trainer.restore(before)
    with pytest.raises(xlac.SourceError, match="not finite"):
        trainer.run_step({"ids": IDS, "y": np.full(6, np.inf, np.float32)})
    for name, value in trainer.state().items():
        assert value.tobytes() == before[name].tobytes(), name
