"""Training among ranks that are threads of one process: equal to training in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ranks.agreement import ReportedElsewhereError
from xlac.training.loop import checkpoint
from xlac.training.trainer import Trainer
from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.programs.program import exchanges
from xlac_sdk.source import SourceError, UnsupportedError, XlacError

SPEC = """\
xlac: 1
model: digits
mesh: {data: null, model: null}
shard: {up.weight: [model, null], down.weight: [null, model]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 6]", y: "i32[batch]"}
graph:
  up: {op: linear, in: x, units: 8}
  down: {op: linear, in: relu(up), units: 4}
outputs: [down]
train:
  batch: batch
  loss: mean(cross_entropy(down, y))
  metrics: {accuracy: "mean(f32(argmax(down, axis=-1) == y))"}
  optimizer: {adamw: {lr: 0.05}}
  clip: {norm: 1.0}
"""
MESHES = ["data=2,model=1", "data=1,model=2", "data=2,model=2"]
BOUND = 1e-12  # of f64, whose sums are in another order


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "digits.yaml"
    path.write_text(SPEC, "utf-8")
    return path


def rows(count: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((count, 6))
    return {"x": x, "y": (x[:, 0] > 0).astype(np.int32)}


def ranks_of(mesh: str) -> int:
    return int(np.prod([int(part.partition("=")[2]) for part in mesh.split(",")]))


def check_states(one: dict[str, Array], other: dict[str, Array]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=0, atol=BOUND, err_msg=name)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mesh", MESHES)
def test_steps_equal_those_of_one_process(spec: Path, mesh: str) -> None:
    """Batches that have equal parts, and one that has none."""

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        numbers = [trainer.step(**rows(count, count)) for count in (4, 3)]
        numbers.append(trainer.evaluate(**rows(4)))
        return numbers, trainer.state(), trainer(x=rows(4)["x"]), parts_of(trainer)

    wanted, state, outputs, _ = steps(None)
    for numbers, own, got, parts in together(ranks_of(mesh), steps):
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        check_states(state, own)
        np.testing.assert_allclose(got, outputs, rtol=0, atol=BOUND)
        count = 2 if "model=2" in mesh else 1  # of the parts of weights, and of their moments
        for name, array in state.items():
            divided = "weight" in name or "up.bias" in name
            assert parts[name] * (count if divided else 1) == array.nbytes, name


def test_sizes_without_equal_parts(spec: Path) -> None:
    """Widths of weights, and rows of a batch: fewer than ranks, too."""
    spec.write_text(SPEC.replace("units: 8", "units: 7").replace("data: null", "data: 2"), "utf-8")

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh="model=2" if rank else None, target="reference")
        return [trainer.step(**rows(count, count)) for count in (3, 1)], trainer.state()

    wanted, state = steps(None)
    for numbers, own in together(4, steps):
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        check_states(state, own)


def parts_of(trainer: Trainer) -> dict[str, int]:
    """The bytes of each tensor of the state in this rank's program."""
    program = trainer._programs._current
    assert program is not None
    return {slot.name: slot.nbytes for slot in program.program.slots if slot.role.name == "STATE"}


def collectives_of(trainer: Trainer, kind: str) -> Counter[str]:
    """The collectives of a program of this rank."""
    (compiled, *_) = (c for k, c in trainer._programs._compiled.items() if k[0] == kind)
    found = exchanges(compiled.program.every_step)
    return Counter(f"{one.exchange.kind} {one.sent}" for one in found)


IN_PARTS = {
    **{f"reduce_scatter {n}": 1 for n in (48, 32, 8, 4)},  # a gradient
    **{f"all_gather {n // 2}": 1 for n in (48, 32, 8, 4)},  # a weight
    "all_reduce 1": 3,  # loss, accuracy, norm of all gradients
    "axis_index 1": 1,
}


@pytest.mark.parametrize("shard", ["optimizer", "weights"])
def test_what_ranks_hold_in_parts(spec: Path, shard: str) -> None:
    """Each gradient is exchanged once, and each weight; results are those of one process."""
    text = SPEC.replace("  clip:", f"  shard: {shard}\n  clip:")
    spec.write_text(
        text.replace("shard: {up.weight: [model, null], down.weight: [null, model]}\n", "")
    )

    def steps(rank: ThreadRank | None) -> Any:
        mesh = "data=2,model=1" if rank else None
        trainer = xlac.trainer(spec, mesh=mesh, target="reference")
        numbers = [trainer.step(**rows(count, count)) for count in (4, 3)]
        return numbers, trainer.state(), parts_of(trainer), trainer

    wanted, state, _, _ = steps(None)
    for numbers, own, parts, trainer in together(2, steps):
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        check_states(state, own)
        assert collectives_of(trainer, "step") == IN_PARTS
        for name, array in state.items():
            kept = name.startswith(("optimizer.m.", "optimizer.v.", "optimizer.exp"))
            divided = array.ndim and (kept or (shard == "weights" and "optimizer" not in name))
            assert parts[name] * (2 if divided else 1) == array.nbytes, name


@pytest.mark.long
@pytest.mark.parametrize("shard", ["", "gradients", "weights"])
def test_micro_batches(spec: Path, shard: str) -> None:
    spec.write_text(SPEC.replace("  clip:", f"  shard: {shard or 'null'}\n  clip:"), "utf-8")

    def steps(rank: ThreadRank | None) -> Any:
        mesh = "data=2,model=1" if rank else None
        trainer = xlac.trainer(spec, mesh=mesh, target="reference", accumulate=2)
        return trainer.step(**rows(8)), trainer.state()

    wanted, state = steps(None)
    for numbers, own in together(2, steps):
        assert numbers == pytest.approx(wanted, abs=BOUND)
        check_states(state, own)


def trained(spec: Path, run: Path, ranks: int, mesh: str, resume: bool, epochs: int) -> list[Any]:
    def one(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        told = {"epochs": epochs, "batch": 8, "best": "loss:min"}
        return xlac.train(trainer, rows(12), run, resume=resume, **told)

    return together(ranks, one) if mesh else [one(None)]


def newest(run: Path) -> dict[str, Array]:
    return checkpoint.read(checkpoint.listed(run / "checkpoints")[0]).state


def check_rows(one: Sequence[Any], other: Sequence[Any]) -> None:
    for want, got in zip(one, other, strict=True):
        numbers = {name: value for name, value in want.items() if name != "seconds"}
        assert {n: got[n] for n in numbers} == pytest.approx(numbers, abs=BOUND)


def test_a_run_goes_on_with_another_number_of_ranks(spec: Path, tmp_path: Path) -> None:
    """On two ranks that have parts of the weights, then in one process."""
    (whole,) = trained(spec, tmp_path / "whole", 1, "", False, 2)
    run = tmp_path / "run"
    one, other = trained(spec, run, 2, "data=1,model=2", False, 1)
    check_rows(one.metrics, other.metrics)
    (ended,) = trained(spec, run, 1, "", True, 2)
    check_rows(whole.metrics, ended.metrics)
    check_states(newest(tmp_path / "whole"), newest(run))
    names = {path.name for path in run.iterdir()}
    assert {"weights.safetensors", "best_weights.safetensors", "metrics.csv", "run.json"} <= names


@pytest.mark.long
def test_a_run_of_one_process_goes_on_with_two(spec: Path, tmp_path: Path) -> None:
    (whole,) = trained(spec, tmp_path / "whole", 1, "", False, 2)
    run = tmp_path / "run"
    trained(spec, run, 1, "", False, 1)
    for ended in trained(spec, run, 2, "data=2,model=1", True, 2):
        check_rows(whole.metrics, ended.metrics)
    check_states(newest(tmp_path / "whole"), newest(run))


def test_an_error_of_rank_0_ends_all(spec: Path, tmp_path: Path) -> None:
    """A folder that is not empty, which rank 0 sees."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("", "utf-8")
    raised: dict[int, BaseException] = {}

    def one(rank: ThreadRank) -> None:
        trainer = xlac.trainer(spec, mesh="data=2,model=1", target="reference")
        try:
            xlac.train(trainer, rows(8), tmp_path / "run", epochs=1, batch=8)
        except (XlacError, ReportedElsewhereError) as error:
            raised[rank.rank] = error

    together(2, one)
    assert "XL6331" in str(raised[0])
    assert isinstance(raised[1], ReportedElsewhereError)


def test_a_rank_with_another_state_is_named(spec: Path, tmp_path: Path) -> None:
    def one(rank: ThreadRank) -> None:
        trainer = xlac.trainer(spec, mesh="data=2,model=1", target="reference")
        if rank.rank:
            trainer._programs.write("up.bias", np.ones(8))
        xlac.train(trainer, rows(8), tmp_path / "run", epochs=1, batch=8)

    with pytest.raises(SourceError, match="rank 1 has another state than rank 0") as caught:
        together(2, one)
    assert caught.value.diagnostics[0].code == "XL7811"


def test_what_does_not_go_with_a_mesh(spec: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"mesh data=2,model=1 has 2 ranks, and this proc"):
        xlac.trainer(spec, mesh={"data": 2, "model": 1})
    with pytest.raises(SourceError, match="max_memory does not go with a mesh"):
        xlac.trainer(spec, mesh="data=2,model=1", max_memory="1G")
