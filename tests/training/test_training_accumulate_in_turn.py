"""Losses that learn in turn from micro-batches: each has a pass over them, and one update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_accumulate import equal, near
from test_training_several import GAN, MEASURED, SHARED, batch

import xlac
from xlac.cli import status
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError


def made(folder: Path, text: str, parts: int = 1, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text)
    return xlac.trainer(file, target=target, **({"accumulate": parts} if parts > 1 else {}))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.sampled(4)
@pytest.mark.long
def test_a_gan_learns_as_from_the_whole_batch(target: str, tmp_path: Path) -> None:
    """Whole and ragged batches, and one of one row, which is one micro-batch."""
    text = GAN.replace("f32(on_real", "f64(on_real")
    one, several = made(tmp_path, text), made(tmp_path, text, 3, target)
    assert several.inputs == one.inputs
    for seed, rows in enumerate((6, 8, 5, 1, 6)):
        given = batch(seed, rows)
        told = several.step(**given)
        assert list(told) == ["discriminator", "generator", "right"]
        near(told, one.step(**given))
        near(several.evaluate(**given), one.evaluate(**given))
    near(several.state(), one.state(), 1e-10)
    assert several.steps_done == 5


def test_a_weight_of_two_losses(tmp_path: Path) -> None:
    """The second loss learns from what the first has left of the same weight."""
    text = SHARED.format(order="in_turn")
    one, several = made(tmp_path, text), made(tmp_path, text, 4)
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(7, 3))
        near(several.step(x=x), one.step(x=x))
    near(several.state(), one.state())


def test_statistics_are_measured_in_each_pass_that_computes_them_again(tmp_path: Path) -> None:
    one, several = made(tmp_path, MEASURED), made(tmp_path, MEASURED, 2)
    x = np.random.default_rng(0).normal(size=(8, 3)) + 2.0
    before = several.weights()
    several.step(x=x)
    after = several.weights()
    halves = [half.mean(0) for half in (x[:4], x[4:])]
    early = 0.1 * (0.9 * halves[0] + halves[1])
    np.testing.assert_allclose(after["early.mean"], early, 1e-12)
    running: Any = 0.0
    for weights in (before, after, after):  # the third pass: late.weight has learned
        for half in (x[:4], x[4:]):
            running = 0.9 * running + 0.1 * (half @ weights["out.weight"].T).mean(0)
    np.testing.assert_allclose(after["late.mean"], running, 1e-9)
    one.step(x=x)
    for name in ("out.weight", "early.count"):
        if name in after:
            np.testing.assert_allclose(after[name], one.weights()[name], 1e-12)


def test_dropout_draws_anew_for_what_is_computed_again(tmp_path: Path) -> None:
    """In the first micro-batch as a step without micro-batches would."""
    one, several = made(tmp_path, MEASURED), made(tmp_path, MEASURED, 2)
    x = np.random.default_rng(0).normal(size=(8, 3))
    told = several.step(x=x)
    assert told["dropped"] != told["again"]
    half = one.step(x=x[:4])
    for part in (several,):
        part.reset()
        again = part.step(x=x)
        assert again == told
    assert half["dropped"] != half["again"]


@pytest.mark.parametrize("name", ["z", "real"])
@pytest.mark.sampled(4)
def test_nothing_is_learned_where_one_pass_is_not_finite(name: str, tmp_path: Path) -> None:
    trainer = made(tmp_path, GAN, 2)
    trainer.step(**batch(0))
    before = trainer.state()
    wrong = batch(1)
    wrong[name][0, 0] = np.nan
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert equal(trainer.state(), before)
    trainer.step(**batch(2))
    assert trainer.steps_done == 2


@pytest.mark.long
def test_a_step_that_is_stopped_between_passes_begins_anew(tmp_path: Path) -> None:
    text = GAN.replace("f64", "f32")
    draw = lambda n: {name: array.astype("f4") for name, array in batch(n).items()}
    whole, stopped = made(tmp_path, text, 2), made(tmp_path, text, 2)
    expected = [whole.step(**draw(n)) for n in range(3)]
    assert stopped.step(**draw(0)) == expected[0]
    called = stopped._programs.called
    for kind in ("accumulate_discriminator", "accumulate_generator", "step"):

        def stops(entry: str, arrays: Any, kind: str = kind) -> Any:
            if entry == kind:
                raise KeyboardInterrupt
            return called(entry, arrays)

        stopped._programs.called = stops  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            stopped.step(**draw(1))
        stopped._programs.called = called  # type: ignore[method-assign]
    assert [stopped.step(**draw(n)) for n in (1, 2)] == expected[1:]
    assert equal(stopped.state(), whole.state())


@pytest.mark.long
def test_in_c_each_loss_has_an_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = str(tmp_path / "gan.yaml"), str(tmp_path / "out")
    Path(spec).write_text(GAN + "  accumulate: 2\n")
    assert status(["build", spec, *"--target c --emit c,h --dim batch=4 -o".split(), out]) == 0
    header = (tmp_path / "out" / "gan.h").read_text()
    for entry in ("accumulate_discriminator", "accumulate_generator", "step"):
        assert f"gan_{entry}(" in header
    asked = ["run", spec, "--target", "reference", "--entry"]
    assert status([*asked, "accumulate_generator"]) == 0
    assert status([*asked, "accumulate"]) == 2
    assert "accumulate_discriminator" in capsys.readouterr().err
