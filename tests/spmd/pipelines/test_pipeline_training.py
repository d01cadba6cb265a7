"""Training in a pipeline of ranks that are threads of one process: equal to training in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pipelined import LAYERS, TIED

import xlac
from xlac.cli import status
from xlac.training.loop import checkpoint
from xlac.training.ranks.pipeline import PipelinePrograms
from xlac.training.trainer import Trainer
from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.source import SourceError, UnsupportedError

NUMBERS = 8 + 4  # bytes of loss and accuracy, which are kept until the end of a step
BOUND = 1e-12  # of f64, whose sums are in another order
MESHES = [  # the last shows what the others do
    pytest.param("data=1,stage=2", marks=pytest.mark.long),
    pytest.param("data=1,stage=4", marks=pytest.mark.long),
    "data=2,stage=2",
]


def written(folder: Path, text: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(text, "utf-8")
    return path


def rows(count: int) -> dict[str, Array]:
    generator = np.random.default_rng(count)
    x = generator.standard_normal((count, 6))
    return {"x": x, "y": (x[:, 0] > 0).astype(np.int32)}


def ids(count: int) -> dict[str, Array]:
    generator = np.random.default_rng(count)
    whole = generator.integers(0, 20, (count, 7)).astype(np.int32)
    return {"x": whole[:, :6], "y": whole[:, 6]}


def ranks_of(mesh: str) -> int:
    return int(np.prod([int(part.partition("=")[2]) for part in mesh.split(",")]))


def check_equal(
    spec: Path, mesh: str, given: Callable[[int], dict[str, Array]], only_steps: bool = False
) -> list[Any]:
    """Steps of batches that have equal parts, and one that has none; the trainers of all ranks."""

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        numbers = [trainer.step(**given(count)) for count in (8, 7)]
        if only_steps:
            return numbers, trainer.state(), None, trainer
        numbers.append(trainer.evaluate(**given(8)))
        got = trainer(x=given(4)["x"])
        return numbers, trainer.state(), got, trainer

    wanted, state, outputs, _ = steps(None)
    every = together(ranks_of(mesh), steps)
    for numbers, own, got, _ in every:
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        assert own.keys() == state.keys()
        for name, array in state.items():
            np.testing.assert_allclose(own[name], array, rtol=0, atol=BOUND, err_msg=name)
        if not only_steps:
            np.testing.assert_allclose(got, outputs, rtol=0, atol=BOUND)
    return [trainer for _, _, _, trainer in every]


def states_of(trainer: Trainer) -> set[str]:
    """What a rank holds of the state."""
    program = trainer._programs._current
    assert program is not None
    return {s.name for s in program.program.slots if s.role.name == "STATE" and s.name}


@pytest.mark.parametrize("mesh", MESHES)
def test_steps_equal_those_of_one_process(tmp_path: Path, mesh: str) -> None:
    """Dropout, a value that skips a stage, gradients clipped by their norm; of four stages on two
    ranks each rank has two.
    """
    trainers = check_equal(written(tmp_path, LAYERS), mesh, rows)
    first = states_of(trainers[0])
    assert {"l1.weight", "optimizer.m.l1.weight", "accumulate.gradient.l1.weight"} <= first
    assert not any(name.endswith("l2.weight") for name in first)
    assert ("l3.weight" in first) == ("stage=2" in mesh)


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_table_of_two_stages(tmp_path: Path, schedule: str) -> None:
    """The embedding's table is that of the logits, too; statistics and averages of weights."""
    text = TIED.replace("logits]]}", f"logits]], schedule: {schedule}}}")
    trainers = check_equal(written(tmp_path, text), "data=1,stage=3", ids)
    for trainer, holds in zip(trainers, (True, False, True), strict=True):
        assert ("table" in states_of(trainer)) == holds
        assert ("accumulate.gradient.bn.bias" in states_of(trainer)) != holds


@pytest.mark.long
@pytest.mark.parametrize("shard", ["optimizer", "weights"])
def test_what_ranks_of_a_stage_hold_in_parts(tmp_path: Path, shard: str) -> None:
    text = LAYERS.replace("accumulate: 4", f"accumulate: 4\n  shard: {shard}")
    check_equal(written(tmp_path, text), "data=2,stage=2", rows)


@pytest.mark.long
def test_stages_that_are_found(tmp_path: Path) -> None:
    stages = LAYERS[LAYERS.index(", stages") : LAYERS.index("}\ndims")]
    wide = LAYERS.replace("units: 8", "units: 64")
    found = written(tmp_path, wide.replace(stages, ""))
    trainers = check_equal(found, "data=1,stage=2", rows)
    held = [states_of(trainer) for trainer in trainers]
    weights = ["l1.weight", "l2.weight", "l3.weight", "l4.weight"]
    assert [[name in one for one in held].index(True) for name in weights] == [0, 0, 1, 1]
    chunks = written(tmp_path, wide.replace(stages, ", chunks: 2"))
    check_equal(chunks, "data=1,stage=2", rows)


@pytest.mark.long
def test_memory_between_phases_is_bounded(tmp_path: Path) -> None:
    """By micro-batches under way, not by how many there are."""
    taken: dict[tuple[int, str], int] = {}
    for count in (8, 16):
        for schedule in ("1f1b", "gpipe"):
            text = LAYERS.replace("[l4]]}", f"[l4]], schedule: {schedule}}}")
            spec = written(tmp_path, text.replace("max: 32", "max: 64"))

            def pool(rank: ThreadRank, spec: Path = spec, count: int = count) -> int:
                trainer = xlac.trainer(
                    spec, mesh="data=1,stage=4", target="reference", accumulate=count
                )
                trainer.step(**rows(2 * count))
                programs = trainer._programs
                assert isinstance(programs, PipelinePrograms)
                return programs._pool.nbytes - count * NUMBERS

            taken[count, schedule] = together(4, pool)[0]
    assert taken[16, "1f1b"] == taken[8, "1f1b"] < taken[8, "gpipe"] < taken[16, "gpipe"]


def trained(spec: Path, run: Path, mesh: str, resume: bool, epochs: int) -> list[Any]:
    def one(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh or None, target="reference")
        return xlac.train(trainer, rows(12), run, resume=resume, epochs=epochs, batch=8)

    return together(ranks_of(mesh), one) if mesh else [one(None)]


@pytest.mark.long
def test_a_run_goes_on_with_other_stages(tmp_path: Path) -> None:
    """On two ranks that have weights of their own, then in one process."""
    spec = written(tmp_path, LAYERS)
    (whole,) = trained(spec, tmp_path / "whole", "", False, 2)
    trained(spec, tmp_path / "run", "data=1,stage=2", False, 1)
    (ended,) = trained(spec, tmp_path / "run", "", True, 2)
    assert ended.metrics[-1]["loss"] == pytest.approx(whole.metrics[-1]["loss"], abs=BOUND)
    states = [
        checkpoint.read(checkpoint.listed(tmp_path / run / "checkpoints")[0]).state
        for run in ("whole", "run")
    ]
    for name, array in states[0].items():
        np.testing.assert_allclose(states[1][name], array, rtol=0, atol=BOUND, err_msg=name)


def test_what_cannot_be_in_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = written(tmp_path, LAYERS)

    def made(mesh: str) -> Callable[[ThreadRank], Trainer]:
        return lambda rank: xlac.trainer(spec, mesh=mesh, target="reference")

    with pytest.raises(SourceError, match="there are 4 stages for 3 ranks along 'stage'"):
        together(3, made("data=1,stage=3"))
    with pytest.raises(UnsupportedError, match="has 2 ranks, and this process is alone"):
        xlac.trainer(spec, mesh="data=1,stage=2", target="reference")
    for wrong, told in (
        (LAYERS.replace("[l2]", "[l5]"), "no node is called 'l5'"),
        (LAYERS.replace("axis: stage", "axis: stages"), "the mesh has no axis 'stages'"),
        (LAYERS.replace("axis: stage", "axis: stage, chunks: 2"), "chunks are for stages that are"),
    ):
        assert status(["check", str(written(tmp_path, wrong))]) == 2
        assert told in capsys.readouterr().err


GAN = """\
xlac: 1
model: gan
mesh: {data: null, stage: null}
pipeline: {axis: stage, stages: [[up, fake], [seen, first, score, on_real, on_fake]]}
dims: {batch: {max: 32, opt: 4}}
weights: {init: {seed: 3}}
inputs: {x: "f64[batch, 6]", real: "f64[batch, 4]"}
graph:
  up: {op: linear, in: x, units: 6}
  fake: {op: linear, in: tanh(up), units: 4}
  seen: concat([real, fake], axis=1)
  first: {op: linear, in: "reshape(seen, [-1, 4])", units: 5}
  score: {op: linear, in: "leaky_relu(first, alpha=0.2)", units: 1}
  on_real: "reshape(score, [-1, 2])[:, 0]"
  on_fake: "reshape(score, [-1, 2])[:, 1]"
outputs: [fake]
train:
  batch: batch
  accumulate: 4
  losses:
    discriminator:
      loss: mean(softplus(-on_real)) + mean(softplus(on_fake))
      wrt: ["first.*", "score.*"]
      optimizer: {adam: {lr: 0.01, betas: [0.5, 0.999]}}
      clip: {norm: 0.5}
    generator:
      loss: mean(softplus(-on_fake))
      wrt: ["up.*", "fake.*"]
      optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
      groups: {"*.bias": {lr: 0.1}}
  metrics: {right: mean(f32(on_real > 0.0))}
"""


def pairs(count: int) -> dict[str, Array]:
    generator = np.random.default_rng(count)
    return {"x": generator.normal(size=(count, 6)), "real": generator.normal(size=(count, 4))}


@pytest.mark.parametrize(
    ("mesh", "change"),
    [
        pytest.param("data=1,stage=2", ("", ""), marks=pytest.mark.long),
        ("data=2,stage=2", ("", "")),
        ("data=1,stage=2", ("accumulate: 4", "accumulate: 1")),
        ("data=1,stage=2", ("accumulate: 4", "accumulate: 4\n  order: together")),
    ],
)
@pytest.mark.sampled(3)
def test_losses_that_learn_in_turn(tmp_path: Path, mesh: str, change: tuple[str, str]) -> None:
    """Each has a pass over the micro-batches; the second has what the first has learned. Only
    steps differ by how the losses are in order.
    """
    changed = any(change)
    check_equal(written(tmp_path, GAN.replace(*change)), mesh, pairs, only_steps=changed)
