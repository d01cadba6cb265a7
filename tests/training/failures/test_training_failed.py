"""Steps that fail: the scale of the loss, and the replay that names what went wrong."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {batch: {max: 64, opt: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 5]", y: "i64[batch]"}
graph:
  h: {op: linear, in: x, units: 7, bias: false}
  r: log(h * h)
  out: {op: linear, in: r, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {adam: {lr: 0.01}}
"""
ROOT = SPEC.replace("log(h * h)", "sqrt(abs(h))")  # whose derivative at 0 is infinite
LARGE = SPEC.replace("log(h * h)", "exp(h)").replace("{adam: {lr: 0.01}}", "{sgd: {lr: 1.0e-9}}")


def made(folder: Path, text: str = SPEC, *lines: str, target: str = "reference") -> Trainer:
    (folder / "m.yaml").write_text(text + "".join(f"  {line}\n" for line in lines))
    return xlac.trainer(folder / "m.yaml", target=target)


def batch(seed: int = 0, rows: int = 8) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 5)).astype(np.float32), "y": rng.integers(0, 3, rows)}


def zeros() -> dict[str, Any]:
    """A batch of which a row makes h 0."""
    given = batch(1)
    given["x"][6] = 0
    return given


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize(
    ("target", "accumulate"),
    [("reference", 1), ("cpu", 1), ("c", 1), pytest.param("reference", 3, marks=pytest.mark.long)],
)
@pytest.mark.sampled(8)
def test_a_loss_that_is_not_finite_is_traced(target: str, accumulate: int, tmp_path: Path) -> None:
    """To the node that made it so, with its line; and the state is as before, without any clip."""
    trainer = made(tmp_path, SPEC, f"accumulate: {accumulate}", target=target)
    trainer.step(**batch())
    before = trainer.state()
    for _ in range(2):
        with pytest.raises(
            SourceError,
            match=r"(?s)step 2: the loss is not finite.*XL6031.*m\.yaml:8:.*'r'.*XL602[23]",
        ):
            trainer.step(**zeros())
        assert equal(before, trainer.state())
    trainer.step(**batch(2))
    assert trainer.steps_done == 2


@pytest.mark.parametrize("line", ["clip: {norm: 1.0}", "finite: true", "loss_scale: 128.0"])
@pytest.mark.sampled(6)
def test_gradients_that_are_not_finite_are_traced(line: str, tmp_path: Path) -> None:
    """Only where they are looked at: clip, finite or a scale ask for it."""
    trainer = made(tmp_path, ROOT, line)
    before = trainer.state()
    with pytest.raises(
        SourceError, match=r"(?s)the gradients are not finite.*m\.yaml:8:.*'r'.*XL602[23]"
    ):
        trainer.step(**zeros())
    assert equal(before, trainer.state())


def test_numbers_that_were_wrong_before_are_named(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    given = batch()
    given["x"][3, 2] = np.inf
    with pytest.raises(SourceError, match=r"(?s)XL6031.*input 'x' has inf at \[3, 2\] \[XL6032\]"):
        trainer.step(**given)
    state = trainer.state()
    state["out.bias"][1] = np.nan
    trainer.restore(state)
    with pytest.raises(SourceError, match=r"'out.bias' has nan at \[1\] \[XL6032\]"):
        trainer.step(**batch())


def test_a_run_that_fails_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.yaml").write_text(SPEC)
    given = zeros()
    np.savez(tmp_path / "d.npz", **given)
    options = [str(tmp_path / "m.yaml"), "--data", str(tmp_path / "d.npz"), "--target", "reference"]
    assert status(["train", *options, "--epochs", "1", "-o", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "XL6031" in told and "m.yaml:8:" in told and "checkpoint-0000000000" in told


def test_the_scale_of_the_loss_is_that_of_pytorch(tmp_path: Path) -> None:
    """Grows, backs off, and leaves steps out when torch.amp.GradScaler does."""
    torch = pytest.importorskip("torch")
    scaling = "loss_scale: {init: 1.0e+37, growth: 4.0, backoff: 0.25, interval: 3}"
    trainer = made(tmp_path, LARGE, scaling)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=1e37, growth_factor=4.0, backoff_factor=0.25, growth_interval=3
    )
    weights = trainer.weights()
    held = {n: torch.tensor(a, requires_grad=True) for n, a in weights.items()}
    optimizer = torch.optim.SGD(held.values(), lr=1e-9)
    skipped = 0
    for seed in range(12):
        given = batch(seed)
        if seed in (4, 9):
            given["x"] *= 8
        before = trainer.steps_done
        found = trainer.step(**given)
        assert found["loss_scale"] == pytest.approx(scaler.get_scale(), rel=1e-6), seed
        optimizer.zero_grad()
        h = torch.exp(torch.nn.functional.linear(torch.tensor(given["x"]), held["h.weight"]))
        out = torch.nn.functional.linear(h, held["out.weight"], held["out.bias"])
        loss = torch.nn.functional.cross_entropy(out, torch.tensor(given["y"]))
        scaler.scale(loss).backward()
        known = all(bool(torch.isfinite(t.grad).all()) for t in held.values())
        scaler.step(optimizer)
        scaler.update()
        assert trainer.steps_done - before == known, seed
        skipped += not known
    assert 0 < skipped < 12
    kept = trainer.state()
    assert float(kept["optimizer.loss_scale"]) == pytest.approx(scaler.get_scale(), rel=1e-6)
    again = made(tmp_path, LARGE, scaling)
    again.restore(kept)
    assert again.step(**batch(20)) == trainer.step(**batch(20))


def test_a_power_of_two_changes_no_bit_of_f32(tmp_path: Path) -> None:
    text = SPEC.replace("log(h * h)", "tanh(h)")
    plain, fixed, dynamic = (
        made(tmp_path, text, *line)
        for line in ((), ("loss_scale: 1024",), ("loss_scale: dynamic",))
    )
    for seed in range(3):
        told = [t.step(**batch(seed)) for t in (plain, fixed, dynamic)]
        assert told[0] == told[1] == {n: v for n, v in told[2].items() if n != "loss_scale"}
    weights = [t.weights() for t in (plain, fixed, dynamic)]
    assert equal(weights[0], weights[1]) and equal(weights[0], weights[2])


def test_f16_has_a_scale_of_its_own_and_runs_show_it(tmp_path: Path) -> None:
    text = SPEC.replace("log(h * h)", "tanh(h)")
    trainer = made(tmp_path, text, "compute: f16")
    assert trainer.step(**batch())["loss_scale"] == 65536
    assert "loss_scale" not in made(tmp_path, text, "compute: f16", "loss_scale: 1.0").step(
        **batch()
    )
    assert "loss_scale" not in made(tmp_path, text, "compute: bf16").step(**batch())
    xlac.train(trainer, batch(0, 32), tmp_path / "run", epochs=2, batch=8)
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").open()))
    assert [row["loss_scale"] for row in rows] == ["nan", "65536.0", "65536.0"]


def test_mistakes(tmp_path: Path) -> None:
    for line in (
        "loss_scale: 0",
        "loss_scale: fixed",
        "loss_scale: {growth: 1.0}",
        "loss_scale: {backoff: 1.0}",
        "finite: 3",
    ):
        with pytest.raises(SourceError, match=r"m\.yaml:15:"):
            made(tmp_path, SPEC, line)


PAIR = """\
xlac: 1
model: pair
dims: {batch: {max: 64, opt: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 5]"}
graph:
  up: {op: linear, in: x, units: 5}
  fake: {op: linear, in: tanh(up), units: 5}
  score: {op: linear, in: "concat([x, fake], axis=0)", units: 1}
outputs: [fake]
train:
  batch: batch
  compute: f16
  loss_scale: 1e9
  losses:
    judge:
      loss: mean(softplus(-score[:batch])) + mean(softplus(score[batch:]))
      wrt: ["score.*"]
      optimizer: {adam: {}}
    maker: {loss: "mean(softplus(-score[batch:]))", wrt: ["up.*", "fake.*"], optimizer: {adam: {}}}
"""


def test_a_scale_that_spoils_a_later_loss_becomes_smaller(tmp_path: Path) -> None:
    """Losses in turn: the second is computed with weights that infinite gradients of the first have
    changed, so that it is not a number says nothing; a batch with NaN still ends the run.
    """
    trainer = made(tmp_path, PAIR.replace("1e9", "{init: 1.0e+9, interval: 2}"))
    first, given, skipped = trainer.state(), {"x": batch()["x"]}, 0
    while trainer.steps_done < 1:
        totals = trainer.run_step(given)
        if not trainer.steps_done:
            assert totals["maker"] == (0.0, 0.0) or skipped  # not counted
            assert np.isfinite([*totals["judge"], *totals["maker"]]).all()
            skipped += 1
            changed = {n for n, a in trainer.state().items() if not np.array_equal(a, first[n])}
            assert changed == {"optimizer.loss_scale"}
        assert skipped < 40
    assert skipped > 3
    with pytest.raises(SourceError, match=r"(?s)the loss is not finite.*input 'x' has nan"):
        trainer.step(x=np.full((8, 5), np.nan, np.float32))
