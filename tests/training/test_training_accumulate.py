"""Steps of several micro-batches: one update, as one batch of all examples has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_specs import COUNTED, DENSE, NORMED

import xlac
from xlac.cli import status
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac.training.reports.summary import summarize_training
from xlac.training.trainer import Trainer
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request


def made(
    folder: Path, text: str = DENSE, line: str = "", target: str = "reference", **more: Any
) -> Trainer:
    file = folder / "m.yaml"
    file.write_text(f"{text}  {line}\n" if line else text)
    return xlac.trainer(file, target=target, **more)


def batch(seed: int, rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, 5)), "y": rng.integers(0, 3, rows)}


def near(one: dict[str, Any], other: dict[str, Any], bound: float = 1e-12) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], bound, bound, err_msg=name)


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


@pytest.mark.parametrize("loss", ["mean", "counted"])
@pytest.mark.parametrize("target", ["reference", "cpu", "c"])
@pytest.mark.sampled(12)
def test_as_one_batch(loss: str, target: str, tmp_path: Path) -> None:
    """Whole, ragged and smaller batches; the counted loss has a micro-batch with a count of 0."""
    text = DENSE
    if loss == "counted":
        line = next(one for one in DENSE.splitlines() if one.startswith("  loss:"))
        text = DENSE.replace(line, f"  loss: {COUNTED}")
    one, several = made(tmp_path, text), made(tmp_path, text, "accumulate: 4", target)
    for seed, rows in enumerate((16, 13, 3, 1, 16)):
        given = batch(seed, rows)
        if loss == "counted":
            given["y"][:4] = 0 if rows > 4 else 1
        expected = one.step(**given)
        near(several.step(**given), expected)
        near(several.evaluate(**given), one.evaluate(**given))
    near(several.state(), one.state(), 1e-10)
    assert several.steps_done == 5


def test_as_pytorch_has_it(tmp_path: Path) -> None:
    """Batch norm measures each micro-batch, one after another; the last has fewer rows."""
    torch = pytest.importorskip("torch")
    trainer = made(tmp_path, NORMED, "accumulate: 3")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 1, 1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(100, 3),
    ).double()
    weights = trainer.weights()
    held = {
        f"{name}.{end}": getattr(net[number], end)
        for number, name in ((0, "c"), (1, "n"), (4, "out"))
        for end in ("weight", "bias")
    }
    for name, tensor in held.items():
        tensor.data = torch.tensor(weights[name])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y = rng.normal(size=(8, 3, 5, 5)), rng.integers(0, 3, 8)
        found = trainer.step(x=x, y=y)["loss"]
        optimizer.zero_grad()
        total = 0.0
        for rows in (slice(0, 3), slice(3, 6), slice(6, 8)):
            scores, wanted = net(torch.tensor(x[rows])), torch.tensor(y[rows])
            loss = torch.nn.functional.cross_entropy(scores, wanted, reduction="sum") / 8
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        assert found == pytest.approx(total, rel=1e-11)
    weights = trainer.weights()
    for name, tensor in held.items():
        np.testing.assert_allclose(weights[name], tensor.detach(), 1e-9, 1e-11, err_msg=name)
    np.testing.assert_allclose(weights["n.mean"], net[1].running_mean, 1e-9, 1e-11)
    np.testing.assert_allclose(weights["n.variance"], net[1].running_var, 1e-9, 1e-11)


def test_what_is_dropped_counts_the_micro_batches(tmp_path: Path) -> None:
    text = DENSE.replace("  frozen_mode: [d]\n", "").replace("tanh(h)", "exp(h * 0.0)")
    text = text.replace("mean(f64(argmax(out, axis=-1) == y))", '"mean(f64(d == 0.0) * x[:, 0:1])"')
    text = text.replace("{adamw: {lr: 0.01}}", "{sgd: {lr: 0.0}}")
    one, several = made(tmp_path, text), made(tmp_path, text, "accumulate: 2")

    def dropped(trainer: Trainer, row: int) -> Any:
        """How many numbers of a row were left out, in the first two steps."""
        trainer.reset()
        given = batch(0, 8)
        given["x"][:, 0] = np.arange(8) == row
        return [round(trainer.step(**given)["right"] * 56) for _ in range(2)]

    whole = [dropped(one, row) for row in range(8)]
    parts = [dropped(several, row) for row in range(8)]
    assert parts == [dropped(several, row) for row in range(8)]
    assert parts[:4] == whole[:4]  # the first micro-batch draws as a step without others
    assert parts[4:] != parts[:4]  # the second draws other numbers


@pytest.mark.long
def test_going_on_is_going_on_to_the_bit(tmp_path: Path) -> None:
    """Between steps the state has nothing of the micro-batches, and a step that was left in between
    begins anew.
    """
    text = NORMED.replace("f64", "f32")
    rng = np.random.default_rng(0)
    draw = lambda: {"x": rng.normal(size=(7, 3, 5, 5)).astype("f4"), "y": rng.integers(0, 3, 7)}
    data = [draw() for _ in range(4)]
    first = made(tmp_path, text, "accumulate: 3")
    for given in data[:2]:
        first.step(**given)
    kept = first.state()
    assert not [name for name in kept if name.startswith("accumulate")]
    expected = [first.step(**given) for given in data[2:]]
    second = made(tmp_path, text, accumulate=3)
    second.restore(kept)
    assert [second.step(**given) for given in data[2:]] == expected
    assert equal(first.state(), second.state())
    second.restore(kept)
    called = second._programs.called

    def stopped(kind: str, arrays: Any) -> Any:
        if kind == "step":
            raise KeyboardInterrupt
        return called(kind, arrays)

    second._programs.called = stopped  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        second.step(**data[0])
    second._programs.called = called  # type: ignore[method-assign]
    assert equal(second.state(), kept)
    assert [second.step(**given) for given in data[2:]] == expected


def test_nothing_is_learned_where_one_micro_batch_is_not_finite(tmp_path: Path) -> None:
    trainer = made(tmp_path, DENSE, "accumulate: 4")
    trainer.step(**batch(0, 8))
    before = trainer.state()
    wrong = batch(1, 8)
    wrong["x"][2, 1] = np.nan
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert equal(trainer.state(), before)
    trainer.step(**batch(2, 8))
    assert trainer.steps_done == 2


def test_the_memory_is_that_of_one_micro_batch(tmp_path: Path) -> None:
    text = DENSE.replace("max: 64, opt: 8", "max: 4096, opt: 4096")
    told = {}
    for number in (1, 16):
        (tmp_path / "m.yaml").write_text(f"{text}  accumulate: {number}\n")
        model, training = load_training(tmp_path / "m.yaml")
        told[number] = summarize_training(model, training, find("cpu").target(Request()))
    assert told[16]["sizes"] == {"batch": 256} and told[16]["accumulate"] == 16
    assert told[16]["bytes"]["step"] < told[1]["bytes"]["step"] / 12
    assert told[16]["bytes"]["sums"] > told[1]["bytes"]["sums"] == 0
    assert told[16]["peak_bytes"] < told[1]["peak_bytes"] / 10


def test_two_losses_that_learn_together(tmp_path: Path) -> None:
    start = DENSE.index("  loss:")
    losses = """\
  order: together
  losses:
    one: {loss: "mean(cross_entropy(out, y))", optimizer: {sgd: {lr: 0.1}}, wrt: ["out.*"]}
    two: {loss: "mean(h * h)", optimizer: {adam: {lr: 0.1}}, wrt: ["h.*"]}
  frozen_mode: [d]
"""
    text = DENSE[:start] + losses
    one, several = made(tmp_path, text), made(tmp_path, text, "accumulate: 3")
    for seed in range(3):
        near(several.step(**batch(seed, 8)), one.step(**batch(seed, 8)))
    near(several.state(), one.state())


@pytest.mark.long
def test_a_run_of_micro_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Batches larger than the spec's size, cut; a run goes on with the number that it has."""
    (tmp_path / "m.yaml").write_text(DENSE.replace("max: 64, opt: 8", "max: 8, opt: 8"))
    np.savez(tmp_path / "d.npz", **batch(0, 40))
    spec, data, run = (str(tmp_path / name) for name in ("m.yaml", "d.npz", "run"))
    options = ["--data", data, "--target", "reference", "--batch", "16"]
    assert status(["train", spec, *options, "--epochs", "1", "-o", run]) == 2
    assert "XL6309" in capsys.readouterr().err
    assert status(["train", spec, *options, "--accumulate", "2", "--epochs", "1", "-o", run]) == 0
    assert status(["train", spec, "--resume", run, "--target", "reference", "--epochs", "2"]) == 0
    whole = str(tmp_path / "whole")
    assert status(["train", spec, *options, "--accumulate", "2", "--epochs", "2", "-o", whole]) == 0
    weights = [(Path(r) / "weights.safetensors").read_bytes() for r in (run, whole)]
    assert weights[0] == weights[1]
    assert (
        status(
            [
                "train",
                spec,
                "--resume",
                run,
                "--target",
                "reference",
                "--epochs",
                "3",
                "--accumulate",
                "4",
            ]
        )
        != 0
    )
    assert "XL6334" in capsys.readouterr().err


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"m\.yaml:18:.*XL1012"):
        made(tmp_path, DENSE, "accumulate: 0")
    places = r"(?s)m\.yaml:18:15.*batch: batch.*XL2056|m\.yaml:17:15.*XL2056"
    with pytest.raises(SourceError, match=places):
        made(tmp_path, DENSE.replace("  batch: batch\n", ""), "accumulate: 2")
    twice = DENSE.replace('y: "i64[batch]"', 'y: "i64[batch]", z: "f64[2 * batch]"')
    twice = twice.replace("+ 0.01 *", "+ mean(z) +")
    with pytest.raises(SourceError, match="XL2056"):
        made(tmp_path, twice, "accumulate: 2")
    wrong = [{"accumulate": number} for number in (0, -1, True, 2.0)]
    for options in (*wrong, {"accumulate": 2, "dims": {"batch": 4}}):
        with pytest.raises(SourceError, match="XL6045"):
            made(tmp_path, **options)
    bounded = DENSE.replace("max: 64, opt: 8", "min: 3, max: 4, opt: 4")
    trainer = made(tmp_path, bounded, accumulate=3)
    before = trainer.state()
    for rows in (13, 7):
        with pytest.raises(SourceError, match="XL6045"):
            trainer.step(**batch(0, rows))
    trainer.step(**batch(0, 12))
    assert not equal(before, trainer.state())


def test_without_it_a_step_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(DENSE)
    graphs = graphs_of(*load_training(tmp_path / "m.yaml"))
    assert not graphs.accumulate
    assert not [tensor.name for tensor in graphs.state if tensor.transient]
    first, cut = made(tmp_path), made(tmp_path, accumulate=2)
    assert first.fingerprint != cut.fingerprint


def test_no_rows_are_a_mistake_of_the_caller(tmp_path: Path) -> None:
    trainer = made(tmp_path, line="accumulate: 2")
    with pytest.raises(SourceError, match=r"batch=0|at least 1"):
        trainer.step(**batch(0, 0))
    trainer.step(**batch(0, 8))
