"""Trainers: state, what fails before anything is written, random numbers, targets."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {{batch: {{max: 64}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f32[batch, 5]", y: "i32[batch]"}}
graph:
  h: {{op: linear, in: x, units: 7}}
  d: dropout(relu(h), p=0.4)
  out: {{op: linear, in: d, units: 3}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  metrics: {{accuracy: mean(f32(argmax(out, axis=-1) == y))}}
  optimizer: {optimizer}
  {more}
"""

MOMENTUM = "{sgd: {lr: 0.1, momentum: 0.9}}"


def made(folder: Path, optimizer: str = MOMENTUM, more: str = "", **given: str) -> Trainer:
    """A trainer of SPEC, or of another `text`, for the reference or another `target`."""
    file = folder / "m.yaml"
    file.write_text(given.pop("text", SPEC).format(optimizer=optimizer, more=more))
    return xlac.trainer(file, target=given.pop("target", "reference"))


def batch(seed: int = 0, size: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 5)).astype(np.float32)
    return {"x": x, "y": rng.integers(0, 3, size).astype(np.int32)}


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def test_going_on_from_a_state_is_going_on_to_the_bit(tmp_path: Path) -> None:
    first = made(tmp_path, "{adamw: {lr: 0.01}}", "clip: {norm: 1.0}")
    for seed in range(3):
        first.step(**batch(seed))
    kept = first.state()
    for seed in (3, 4):
        told = first.step(**batch(seed, 6 if seed == 3 else 4))
    second = made(tmp_path, "{adamw: {lr: 0.01}}", "clip: {norm: 1.0}")
    second.restore(kept)
    assert second.steps_done == 3
    for seed in (3, 4):
        again = second.step(**batch(seed, 6 if seed == 3 else 4))
    assert told == again
    assert equal(first.state(), second.state())
    second.reset()
    assert second.steps_done == 0
    assert equal(second.state(), made(tmp_path, "{adamw: {lr: 0.01}}", "clip: {norm: 1.0}").state())


def test_nothing_is_learned_from_gradients_that_are_not_finite(tmp_path: Path) -> None:
    trainer = made(tmp_path, more="clip: {norm: 1.0}")
    trainer.step(**batch())
    before = trainer.state()
    wrong = batch(1)
    wrong["x"][2, 1] = np.nan
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert equal(before, trainer.state())
    trainer.step(**batch(2))
    assert trainer.steps_done == 2


def test_a_state_of_another_model_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    trainer.step(**batch())
    before = trainer.state()
    weight = np.zeros((7, 4), np.float32)
    for change in ({"h.weight": weight}, {"other": np.zeros(3)}, {"h.bias": np.zeros(7)}):
        with pytest.raises(SourceError, match="XL3020"):
            trainer.restore({**before, **change})
    with pytest.raises(SourceError, match=r"h\.bias is missing"):
        trainer.restore({name: array for name, array in before.items() if name != "h.bias"})
    assert equal(before, trainer.state())


def test_evaluation_learns_nothing_and_drops_nothing(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    trainer.step(**batch())
    before = trainer.state()
    assert trainer.evaluate(**batch(1)) == trainer.evaluate(**batch(1))
    assert equal(before, trainer.state())
    kept, x = trainer.weights(), batch(1)["x"]
    hidden = np.maximum(x @ kept["h.weight"].T + kept["h.bias"], 0)
    expected = hidden @ kept["out.weight"].T + kept["out.bias"]
    np.testing.assert_allclose(trainer(x=x), expected, 1e-5, 1e-5)


def test_what_is_dropped_depends_on_seed_step_and_place(tmp_path: Path) -> None:
    text = SPEC.replace(
        "loss: mean(cross_entropy(out, y))", "loss: mean(out * 0.0) + sum(d) * 0.0"
    ).replace(
        "metrics: {{accuracy: mean(f32(argmax(out, axis=-1) == y))}}",
        "metrics: {{zeros: mean(f32(d == 0.0)), total: mean(d)}}",
    )
    text = text.replace("d: dropout(relu(h), p=0.4)", "d: dropout(exp(h * 0.0), p=0.4)")
    found = {}
    for name, more in (("a", "seed: 0"), ("again", "seed: 0"), ("b", "seed: 1")):
        trainer = made(tmp_path, "{sgd: {lr: 0.0}}", more, text=text)
        found[name] = [trainer.step(x=batch(s, 64)["x"])["zeros"] for s in range(4)]
        total = trainer.step(x=batch(0, 64)["x"])["total"]
        assert total == pytest.approx(1.0, abs=0.2)  # those that are left make up for the others
    assert found["a"] == found["again"] != found["b"]
    assert len(set(found["a"])) > 1
    assert np.mean(found["a"]) == pytest.approx(0.4, abs=0.05)


def test_frozen_modes_and_weights_that_do_not_learn(tmp_path: Path) -> None:
    trainer = made(tmp_path, more='frozen_mode: [d]\n  wrt: ["out.*"]')
    before = trainer.weights()
    wanted = made(tmp_path, more="frozen_mode: [d]").evaluate(**batch())["loss"]
    assert trainer.step(**batch())["loss"] == pytest.approx(wanted, rel=1e-6)
    after = trainer.weights()
    assert np.array_equal(before["h.weight"], after["h.weight"])
    assert not np.array_equal(before["out.weight"], after["out.weight"])
    assert "optimizer.velocity.out.bias" in trainer.state()
    assert "optimizer.velocity.h.bias" not in trainer.state()


def test_the_rate_is_set_while_it_runs(tmp_path: Path) -> None:
    trainer = made(tmp_path, "{sgd: {lr: 0.5}}")
    trainer.set_rate(0.0)
    before = trainer.weights()
    trainer.step(**batch())
    assert equal(before, trainer.weights())


@pytest.mark.parametrize("target", ["reference", "cpu", "c"])
@pytest.mark.sampled(6)
def test_a_rate_and_a_length_are_written_alone(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = made(tmp_path, "{sgd: {lr: {cosine: {peak: 0.1}}}}", target=target)
    trainer.set_length(10)
    trainer.step(**batch())
    written: list[int] = []
    program = trainer._programs._current
    assert program is not None
    real = program.executable.write_state

    def noted(block: Any, start: int = 0) -> None:
        written.append(len(block))
        real(block, start)

    monkeypatch.setattr(program.executable, "write_state", noted)
    before = trainer.state()
    trainer.set_rate(0.25)
    trainer.set_length(20)
    assert written == ([] if target == "cpu" else [4, 4])  # there in the memory of all programs
    changed = {"optimizer.lr": np.float32(0.25), "optimizer.steps": np.float32(20)}
    assert equal(trainer.state(), {**before, **changed})


def test_a_node_that_is_wrong_is_all_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="unknown key 'unit'") as told:
        made(tmp_path, text=SPEC.replace("units: 3", "unit: 3"))
    assert {one.code for one in told.value.diagnostics} <= {"XL2005", "XL2004"}


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_rate_that_covers_the_run_stays_at_its_peak_until_the_length_is_set(
    schedule: str, tmp_path: Path
) -> None:
    trainer = made(tmp_path, f"{{sgd: {{lr: {{{schedule}: {{peak: 0.1, warmup: 2}}}}}}}}")
    constant = made(tmp_path, "{sgd: {lr: 'where(step < 2, (step + 1) / 2.0, 1.0) * 0.1'}}")
    with pytest.warns(UserWarning, match=r"set_length.*XL6030"):
        trainer.step(**batch())
    constant.step(**batch())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            trainer.step(**batch())
            constant.step(**batch())
    expected = constant.weights()
    for name, found in trainer.weights().items():
        np.testing.assert_allclose(found, expected[name], 1e-6, 1e-7)
    before = trainer.weights()
    trainer.set_length(4)  # steps done, so that the rate is 0 now
    trainer.step(**batch())
    assert equal(trainer.weights(), before)


def test_a_mean_whose_count_the_data_decides(tmp_path: Path) -> None:
    text = SPEC.replace(
        "loss: mean(cross_entropy(out, y))",
        "loss: {{sum: sum(softmax_cross_entropy(out, y) * f32(y > 0)), count: sum(f32(y > 0))}}",
    )
    trainer = made(tmp_path, more="frozen_mode: [d]", text=text)
    given = batch()
    totals = trainer.run_evaluate(given)
    assert totals["loss"][1] == (given["y"] > 0).sum()
    assert totals["accuracy"][1] == 6


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.sampled(4)
def test_targets_agree(target: str, tmp_path: Path) -> None:
    one, other = made(tmp_path), made(tmp_path, target=target)
    for seed in range(3):
        first, second = one.step(**batch(seed)), other.step(**batch(seed))
        assert second["loss"] == pytest.approx(first["loss"], rel=1e-5)
    for name, array in one.state().items():
        np.testing.assert_allclose(other.state()[name], array, 1e-4, 1e-5, err_msg=name)
