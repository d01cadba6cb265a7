"""Gradients of several micro-batches, which ranks add up for themselves and sum once a step."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.training.trainer import Trainer
from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.programs.program import exchanges
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: net
dims: {batch: {max: 64, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 6]", y: "i32[batch]"}
graph:
  up: {op: linear, in: x, units: 8}
  down: {op: linear, in: tanh(up), units: 4}
outputs: [down]
train:
  batch: batch
  accumulate: 4
  loss: mean(cross_entropy(down, y))
  optimizer: {adamw: {lr: 0.05}}
  clip: {norm: 1.0}
"""
GRADIENTS = (48, 8, 32, 4)  # elements of each
COUNTED = SPEC.replace("cross_entropy(down, y)", "cross_entropy(down, y, ignore=1)")
NORMED = SPEC.replace("units: 8", "units: 8, bias: false").replace(
    "  down: {op: linear, in: tanh(up)",
    "  bn: {op: batch_norm, in: up, axis: 1}\n  down: {op: linear, in: tanh(bn)",
)
SHARED = SPEC.replace(
    "  up: {op: linear, in: x, units: 8}",
    """\
  w: {op: weight, type: "f64[8, 6]"}
  up: tanh(matmul(x, transpose(w, [1, 0])))
  again: matmul(up, w)""",
).replace("in: tanh(up)", "in: tanh(again)")
BOUND = 1e-12


def rows(count: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, 6))
    return {"x": x, "y": generator.integers(0, 4, count).astype(np.int32)}


def written(folder: Path, text: str, shard: str = "null") -> Path:
    path = folder / "net.yaml"
    path.write_text(text.replace("  clip:", f"  shard: {shard}\n  clip:"), "utf-8")
    return path


def exchanged(trainer: Trainer, kind: str) -> Counter[str]:
    """What the program of an entry exchanges, of more than single numbers."""
    (program, *_) = (c.program for k, c in trainer._programs._compiled.items() if k[0] == kind)
    found = (one for one in exchanges(program.every_step) if one.sent > 1)
    return Counter(f"{one.exchange.kind} {one.sent}" for one in found)


def check(spec: Path, ranks: int = 2, counts: tuple[int, ...] = (8, 5)) -> Trainer:
    """Steps of batches with equal micro-batches, and with others, are those of one process, and
    ranks have the same state to the bit.
    """

    def steps(rank: ThreadRank | None) -> Any:
        mesh = f"data={ranks}" if rank else None
        trainer = xlac.trainer(spec, mesh=mesh, target="reference")
        numbers = [trainer.step(**rows(count, count)) for count in counts]
        return numbers, trainer.state(), trainer

    wanted, state, _ = steps(None)
    every = together(ranks, steps)
    for numbers, own, _ in every:
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        for name, array in state.items():
            np.testing.assert_allclose(own[name], array, rtol=0, atol=BOUND, err_msg=name)
            np.testing.assert_array_equal(own[name], every[0][1][name], err_msg=name)
    trainer = every[0][2]
    assert isinstance(trainer, Trainer)
    return trainer


def once(kind: str) -> Counter[str]:
    return Counter(f"{kind} {size}" for size in GRADIENTS)


def test_each_gradient_is_summed_once_a_step(tmp_path: Path) -> None:
    """And nothing but the loss before the last micro-batch."""
    trainer = check(written(tmp_path, SPEC), counts=(16, 13, 5))
    assert not exchanged(trainer, "accumulate")
    assert exchanged(trainer, "step") == once("all_reduce")


def test_parts_of_the_optimizer(tmp_path: Path) -> None:
    trainer = check(written(tmp_path, SPEC, "optimizer"))
    assert not exchanged(trainer, "accumulate")
    gathered = Counter(f"all_gather {size // 2}" for size in GRADIENTS)
    assert exchanged(trainer, "step") == once("reduce_scatter") + gathered


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shard", ["gradients", "weights"])
def test_sums_that_are_held_in_parts(tmp_path: Path, shard: str) -> None:
    """Each micro-batch sends its own, as no rank has memory for all of a sum."""
    trainer = check(written(tmp_path, SPEC, shard))
    found = exchanged(trainer, "accumulate")
    assert {name for name in found if name.startswith("reduce")} == set(once("reduce_scatter"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_count_that_data_decide(tmp_path: Path, ranks: int) -> None:
    """The gradient of a micro-batch is scaled by a sum over ranks, which each needs."""
    trainer = check(written(tmp_path, COUNTED), ranks)
    assert not exchanged(trainer, "accumulate")
    assert exchanged(trainer, "step") == once("all_reduce")


def test_statistics_of_each_micro_batch(tmp_path: Path) -> None:
    """Batch norm's are those of all ranks in each; gradients are summed once."""
    trainer = check(written(tmp_path, NORMED))
    assert sum(exchanged(trainer, "accumulate").values()) > 0
    sizes = Counter(exchanged(trainer, "step"))
    assert sizes["all_reduce 48"] == sizes["all_reduce 32"] == 1
    assert not {"all_reduce 48", "all_reduce 32"} & set(exchanged(trainer, "accumulate"))


def test_a_weight_that_is_read_twice(tmp_path: Path) -> None:
    """Its two gradients are one sum."""
    trainer = check(written(tmp_path, SHARED))
    assert not exchanged(trainer, "accumulate")
    assert exchanged(trainer, "step")["all_reduce 48"] == 1


SCALED = SPEC.replace("f64[", "f32[").replace(
    "  clip: {norm: 1.0}", "  clip: {norm: 1.0}\n  compute: f16\n  loss_scale: dynamic"
)


def test_a_loss_scale(tmp_path: Path) -> None:
    """Halves overflow in one micro-batch on one rank: all skip the step, and scale less."""

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh="data=2" if rank else None, target="reference")
        large = rows(16)
        large["x"][2] *= 6e4 / np.abs(large["x"][2]).max()
        batches = [rows(16, 1), large, rows(16, 2)]
        given = [{"x": b["x"].astype(np.float32), "y": b["y"]} for b in batches]
        return [trainer.step(**one) for one in given], trainer.state()

    spec = written(tmp_path, SCALED)
    wanted, state = steps(None)
    for numbers, own in together(2, steps):
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, rel=2e-2)
        assert own["optimizer.loss_scale"] == state["optimizer.loss_scale"]
        assert own["optimizer.step"] == state["optimizer.step"]


def test_a_number_that_is_none(tmp_path: Path) -> None:
    """In the first micro-batch, on one rank: no rank learns, and the error is one process's."""
    spec = written(tmp_path, SPEC)
    bad = rows(16)
    bad["x"][1] = np.nan

    def step(rank: ThreadRank) -> Any:
        trainer = xlac.trainer(spec, mesh="data=2", target="reference")
        before = trainer.state()
        with pytest.raises(SourceError) as raised:
            trainer.step(**bad)
        for name, array in trainer.state().items():
            np.testing.assert_array_equal(array, before[name])
        trainer.step(**rows(16))
        return str(raised.value)

    alone = xlac.trainer(spec, target="reference")
    with pytest.raises(SourceError) as raised:
        alone.step(**bad)
    first = str(raised.value).splitlines()[0]
    assert [one.splitlines()[0] for one in together(2, step)] == [first, first]


def test_what_a_step_sends_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the sums of earlier micro-batches, which are added to the last one's."""
    spec = written(tmp_path, SPEC)
    sent = {}
    for entry in ("accumulate", "step"):
        given = ["--entry", entry, "--mesh", "data=2", "--dim", "batch=8", "--target", "reference"]
        assert status(["explain", str(spec), *given]) == 0
        out = capsys.readouterr().out
        sent[entry] = int(re.findall(r"([\d,]+) bytes sent by each rank", out)[0].replace(",", ""))
    assert "'accumulate.gradient.up.weight' is what each rank has added up" in out
    assert sent == {"accumulate": 8, "step": 8 * (1 + sum(GRADIENTS))}
