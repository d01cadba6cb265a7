"""What learns is updated where it lies: no step of a program copies it."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlac.driver import lower, specialized
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Copy, Role, Step
from xlac_sdk.programs.rewrite import with_steps
from xlac_sdk.target import Request

MODEL = """\
xlac: 1
model: m
weights: {{init: {{seed: 0}}}}
inputs: {{x: "f32[16, 3, 8, 8]", y: "i32[16]"}}
graph:
  c: {{op: conv2d, in: x, filters: 32, kernel: 3, pad: 1}}
  h: {{op: linear, in: "flatten(relu(c), axis=1)", units: 64}}
  out: {{op: linear, in: relu(h), units: 10}}
outputs: [out]
train:
  loss: mean(cross_entropy(out, y))
  optimizer: {{{optimizer}: {{lr: 0.01}}}}
"""
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "lion", "rmsprop", "adagrad")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_no_weight_is_copied(optimizer: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(MODEL.format(optimizer=optimizer))
    step = specialized(graphs_of(*load_training(file)).step)
    program = lower(step, find(target).target(Request(threads=1))).program
    copied: list[str] = []

    def visit(one: Step) -> tuple[Step, ...]:
        if isinstance(one, Copy):
            slots = (one.source.slot, one.target.slot)
            copied.extend(s.name for s in slots if s.role is Role.STATE)
        return (one,)

    with_steps(program.steps, visit)
    assert not copied
