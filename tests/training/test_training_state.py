"""What learns is updated where it lies: no step of a program copies it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from xlac.driver import lower, specialized
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac.training.trainer import Trainer
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


def test_weights_are_not_kept_beside_their_state(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(MODEL.format(optimizer="sgd"))
    model, training = load_training(file)
    first = {tensor.name: tensor.initial for tensor in graphs_of(model, training).state}
    weight = first["h.weight"]()
    kept = weakref.ref(weight.base if weight.base is not None else weight)
    again = first["h.weight"]()
    assert again is not weight and (again == weight).all()
    del weight, again
    gc.collect()
    assert kept() is None


@pytest.mark.sampled(6)
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


def test_programs_of_all_sizes_have_one_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ragged batch and an evaluation copy no weights on cpu; what is set is seen by all."""
    from xlac.training import shared_state

    file = tmp_path / "m.yaml"
    file.write_text(
        "xlac: 1\nmodel: m\ndims: {batch: {max: 8}}\nweights: {init: {seed: 0}}\n"
        'inputs: {x: "f32[batch, 3]"}\ngraph:\n  h: {op: linear, in: x, units: 2}\noutputs: [h]\n'
        "train:\n  batch: batch\n  loss: mean(h * h)\n  optimizer: {sgd: {lr: 0.1, "
        "momentum: 0.9}}\n"
    )
    batches = [np.full((n, 3), n, np.float32) for n in (8, 3, 8, 5)]
    ends = []
    for target in ("cpu", "reference"):
        trainer = Trainer(file, target=target)
        for x in batches:
            trainer.step(x=x)
            trainer.evaluate(x=x[:2])
        kept = trainer.state()
        trainer.set_rate(0.0)
        trainer.step(x=batches[1])
        assert np.array_equal(trainer.weights()["h.weight"], kept["h.weight"])
        trainer.restore(kept)
        assert trainer.state()["optimizer.lr"] == kept["optimizer.lr"]
        ends.append(kept)
        if target == "cpu":
            programs = trainer._programs
            trainer.step(x=batches[0])
            monkeypatch.setattr(shared_state, "state_block", None)
            held = programs._memory["h.weight"].ctypes.data
            trainer.step(x=batches[1])
            trainer.evaluate(x=batches[2])
            assert len(programs._bound) == 3
            assert programs._memory["h.weight"].ctypes.data == held
            monkeypatch.undo()
    for name in ends[0]:
        np.testing.assert_allclose(ends[0][name], ends[1][name], 1e-4, 1e-4)
