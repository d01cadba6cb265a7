"""Losses of classes beside PyTorch's in f64: ignored rows, smoothing, class weights, means."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_losses import batch, made

import xlac

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


@pytest.mark.sampled(12)
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
    """NaN there gives no NaN; where all rows are ignored there is no mean; the gradient is 0."""
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
    weights = torch.tensor(WEIGHTS)
    wanted = [
        F.cross_entropy(torch.tensor(x.T), torch.tensor(row), weights, ignore_index=-1)
        for x, row in zip(X[:3, :, :2], labels, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, 1e-12)


@pytest.mark.parametrize("target", ["reference", "cpu", "c"])
def test_steps_beside_pytorch(target: str, tmp_path: Path) -> None:
    """Batches of any size, labels that do not count, a regulariser beside the mean."""
    classes = "mean(cross_entropy(out, y, rare, ignore=-100, smoothing=0.1))"
    loss = f"{classes} + 0.01 * sum(out.weight * out.weight)"
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
        wanted = F.cross_entropy(out, labels, rare, label_smoothing=0.1)
        wanted = wanted + 0.01 * (net.weight**2).sum()
        wanted.backward()
        optimizer.step()
        total, count = found["loss"]
        assert total / count == pytest.approx(float(wanted.detach()), rel=1e-6)  # a sum is f32
        assert count == pytest.approx(float(rare[labels[labels >= 0]].sum()), rel=1e-6)
        assert found["again"][1] == (given["y"] >= 0).sum()
    np.testing.assert_allclose(trainer.weights()["out.weight"], net.weight.detach(), 1e-9, 1e-11)
