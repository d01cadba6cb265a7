"""Losses of classes beside PyTorch's in f64: ignored rows, smoothing, class weights, their means."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.spec.load import load_training
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(0)
X, WEIGHTS = RNG.normal(size=(6, 5, 3)), RNG.uniform(0.1, 2, 5)
LABELS = RNG.integers(0, 5, (6, 3))
LABELS[2], LABELS[0, 1] = -100, -100
SHARES = np.moveaxis(RNG.dirichlet(np.ones(5), (6, 3)), -1, 1).copy()
CASES = [
    case
    for case in itertools.product(
        (None, -100), (0.0, 0.1, 1.0), (False, True), ("mean", "sum", "none"), (False, True)
    )
    if not (case[0] and case[4])
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("ignore", "smoothing", "weighted", "reduction", "shares"), CASES)
def test_the_loss_and_its_gradient(
    ignore: int | None, smoothing: float, weighted: bool, reduction: str, shares: bool
) -> None:
    target = SHARES if shares else LABELS if ignore else np.maximum(LABELS, 0)
    given = {"axis": 1, "ignore": ignore, "smoothing": smoothing, "reduction": reduction}

    def loss(x: Any) -> Any:
        found = xlac.cross_entropy(x, target, *[WEIGHTS] * weighted, **given)
        return xlac.sum(found * found), found

    (_, found), slope = xlac.value_and_grad(loss, has_aux=True)(X)
    x = torch.tensor(X, requires_grad=True)
    weights = torch.tensor(WEIGHTS) if weighted else None
    wanted = F.cross_entropy(
        x, torch.tensor(target), weights, label_smoothing=smoothing, reduction=reduction
    )
    (wanted * wanted).sum().backward()
    np.testing.assert_allclose(found, wanted.detach(), 1e-12, 1e-13)
    np.testing.assert_allclose(slope, x.grad, 1e-11, 1e-13)


def test_what_an_ignored_row_predicts_reaches_nothing() -> None:
    """NaN there gives no NaN; where all rows are ignored there is no mean, and the gradient is 0."""
    x, labels = X[:, :, 0].copy(), np.array([0, -1, 2, -1, 4, 1])
    x[1], x[3, 2] = np.nan, np.inf
    loss = lambda v, t: xlac.cross_entropy(v, t, ignore=-1, smoothing=0.1)
    value, slope = xlac.value_and_grad(loss)(x, labels)
    kept = labels >= 0
    rest = torch.tensor(x[kept], requires_grad=True)
    wanted = F.cross_entropy(rest, torch.tensor(labels[kept]), label_smoothing=0.1)
    wanted.backward()
    assert float(value) == pytest.approx(float(wanted.detach()), rel=1e-12)
    np.testing.assert_allclose(slope[kept], rest.grad, 1e-11, 1e-13)
    assert not slope[~kept].any()
    value, slope = xlac.value_and_grad(loss)(x, np.full(6, -1))
    assert np.isnan(value)
    assert not slope.any()


def test_each_of_many_examples_has_its_own_mean() -> None:
    labels = np.array([[0, -1], [-1, -1], [2, 3]])
    found = xlac.vmap(lambda v, t: xlac.cross_entropy(v, t, WEIGHTS, ignore=-1, axis=0))(
        X[:3, :, :2], labels
    )
    wanted = [
        F.cross_entropy(torch.tensor(X[n, :, :2].T), torch.tensor(labels[n]), torch.tensor(WEIGHTS), ignore_index=-1)
        for n in range(3)
    ]  # fmt: skip
    np.testing.assert_allclose(found, wanted, 1e-12)


SPEC = """\
xlac: 1
model: words
dims: {{batch: {{max: 64}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f64[batch, 4, 5]", y: "i64[batch, 4]", rare: "f64[3]"}}
graph:
  out: {{op: linear, in: x, units: 3}}
outputs: [out]
train:
  batch: batch
  loss: {loss}
  metrics: {{again: "mean(cross_entropy(out, y, ignore=-100))"}}
  optimizer: {{sgd: {{lr: 0.5}}}}
"""


def made(folder: Path, loss: str, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(SPEC.format(loss=loss))
    return Trainer(file, target=target)


def batch(seed: int, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, (size, 4))
    labels[labels < 0] = -100
    return {"x": rng.normal(size=(size, 4, 5)), "y": labels, "rare": np.array([1.0, 2.5, 0.25])}


@pytest.mark.parametrize("target", ["reference", "cpu", "c"])
def test_steps_beside_pytorch(target: str, tmp_path: Path) -> None:
    """Batches of any size, labels that do not count, a regulariser beside the mean."""
    loss = "mean(cross_entropy(out, y, rare, ignore=-100, smoothing=0.1)) + 0.01 * sum(out.weight * out.weight)"
    trainer = made(tmp_path, loss, target)
    net = torch.nn.Linear(5, 3).double()
    kept = trainer.weights()
    net.weight.data, net.bias.data = (torch.tensor(kept[f"out.{n}"]) for n in ("weight", "bias"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for seed, size in enumerate((6, 2, 5)):
        given = batch(seed, size)
        found = trainer.run_step(given)
        optimizer.zero_grad()
        labels, rare = torch.tensor(given["y"]).flatten(), torch.tensor(given["rare"])
        out = net(torch.tensor(given["x"])).flatten(0, 1)
        wanted = F.cross_entropy(out, labels, rare, label_smoothing=0.1) + 0.01 * (net.weight**2).sum()  # fmt: skip
        wanted.backward()
        optimizer.step()
        total, count = found["loss"]
        assert total / count == pytest.approx(float(wanted.detach()), rel=1e-6)  # a sum is f32
        assert count == pytest.approx(float(rare[labels[labels >= 0]].sum()), rel=1e-6)
        assert found["again"][1] == (given["y"] >= 0).sum()
    np.testing.assert_allclose(trainer.weights()["out.weight"], net.weight.detach(), 1e-9, 1e-11)


def test_means_of_batches_are_the_mean_of_all(tmp_path: Path) -> None:
    """Whatever the sizes of batches, and how many of their labels count."""
    trainer = made(tmp_path, "mean(cross_entropy(out, y, rare, ignore=-100))")
    whole = batch(3, 9)
    parts = [{**whole, **{n: whole[n][at] for n in "xy"}} for at in (slice(0, 2), slice(2, 9))]
    sums = [trainer.run_evaluate(part) for part in parts]
    for name in ("loss", "again"):
        total, count = (sum(one[name][n] for one in sums) for n in (0, 1))
        assert total / count == pytest.approx(trainer.evaluate(**whole)[name], rel=1e-6)
    whole["y"][:] = -100
    assert trainer.run_step(whole)["loss"] == (0.0, 0.0)  # nothing counts, and nothing is learned


def test_data_may_hold_what_the_loss_ignores(tmp_path: Path) -> None:
    trainer = made(tmp_path, "mean(cross_entropy(out, y, ignore=-100))")
    data = batch(0, 8)
    run = xlac.train(trainer, data, tmp_path / "run", epochs=1, batch=4)
    assert np.isfinite(run.metrics[-1]["loss"])
    for wrong in (-1, -99, 3):
        data["y"][5, 2] = wrong
        with pytest.raises(SourceError, match=rf"row 5: input 'y' is {wrong} at \[2\], and its range is 0\.\.2, or -100.*XL6307"):  # fmt: skip
            xlac.train(trainer, data, tmp_path / "other", epochs=1, batch=4)
    strict = made(
        tmp_path, "mean(cross_entropy(out, y))"
    )  # the metric ignores what the loss does not
    with pytest.raises(SourceError, match=r"is -100 .*0\.\.2 .*XL6307"):
        xlac.train(strict, batch(0, 8), tmp_path / "other", epochs=1, batch=4)


def test_a_checked_program_names_a_label_that_is_neither(tmp_path: Path) -> None:
    loss = lambda x, t: xlac.cross_entropy(x, t, ignore=-1)
    checked = xlac.jit(loss, checked=True)
    x = X[:, :, 0]
    assert np.isfinite(checked(x, np.array([0, -1, 2, -1, 4, 1])))
    with pytest.raises(Exception, match="index 7 is outside"):
        checked(x, np.array([0, -1, 7, -1, 4, 1]))


@pytest.mark.parametrize(("call", "code", "told"), [
    ("cross_entropy(out, y, smoothing=1.5)", "XL2009", "smoothing of cross_entropy is 0 to 1"),
    ("cross_entropy(out, out, ignore=1)", "XL2009", "are probabilities"),
    ("cross_entropy(out, u8(y), ignore=-100)", "XL2009", "no u8 is -100"),
    ("cross_entropy(out, y, out)", "XL2009", "a weight for each of 3 classes"),
    ("cross_entropy(out, y, ignore=0.5)", "XL2006", "ignore of cross_entropy"),
    ("cross_entropy(out, y, ignored=1)", "XL2005", "did you mean 'ignore'"),
    ("cross_entropy(out, y, ignore_index=1)", "XL2005", "did you mean 'ignore'"),
    ("cross_entropy(out, y, label_smoothing=0.1)", "XL2005", "did you mean 'smoothing'"),
    ("cross_entropy(out, y, weight=rare)", "XL2005", "did you mean 'weights'"),
])  # fmt: skip
def test_mistakes(call: str, code: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(SPEC.format(loss=call))
    with pytest.raises(SourceError) as wrong:
        load_training(file)
    assert "m.yaml:11:" in str(wrong.value)
    assert f"[{code}]" in str(wrong.value)
    assert told in str(wrong.value)
