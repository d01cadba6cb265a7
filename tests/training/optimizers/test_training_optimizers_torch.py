"""Adafactor and Muon beside PyTorch's and NumPy's in f64, and groups with another optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_optimizers import MUON, made

from xlac.training.trainer import Trainer

torch = pytest.importorskip("torch")


F = torch.nn.functional
NO_NESTEROV = "lr: 0.02, nesterov: false, weight_decay: 0.0"


def steps(trainer: Trainer, optimizers: Any, count: int = 8) -> None:
    """Steps of both, the weights compared after all of them; `optimizers` makes PyTorch's of the
    weights by name.
    """
    weights = {n: torch.tensor(a, requires_grad=True) for n, a in trainer.weights().items()}
    used = optimizers(weights)
    rng = np.random.default_rng(0)
    for size in [6, 4, 6, 5, *[6] * count][:count]:
        x, y = rng.normal(size=(size, 2, 5, 5)), rng.integers(0, 4, size)
        found = trainer.step(x=x, y=y)
        linear = lambda v, n: F.linear(v, weights[f"{n}.weight"], weights[f"{n}.bias"])
        maps = F.conv2d(torch.tensor(x), weights["c.weight"], weights["c.bias"])
        hidden = linear(maps.flatten(1).tanh(), "h").tanh()
        loss = F.cross_entropy(linear(hidden, "out"), torch.tensor(y))
        for weight in weights.values():
            weight.grad = None
        loss.backward()
        for one in used:
            one.step()
        assert found["loss"] == pytest.approx(float(loss.detach()), rel=1e-10)
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, weights[name].detach(), 1e-9, 1e-11, err_msg=name)


@pytest.mark.parametrize(
    "given",
    [{}, {"lr": 0.3, "beta2_decay": -0.5, "eps": (1e-8, 0.01), "d": 1.5, "weight_decay": 0.1}],
    ids=["defaults", "others"],
)
def test_adafactor(given: dict[str, Any], tmp_path: Path) -> None:
    """Of matrices, of stacks of matrices and of vectors."""
    told = {n: list(value) if isinstance(value, tuple) else value for n, value in given.items()}
    trainer = made(tmp_path, f"{{adafactor: {told}}}".replace("'", ""))
    kept = trainer.state()
    assert kept["optimizer.row.c.weight"].shape == (3, 2, 3, 1)
    assert kept["optimizer.column.h.weight"].shape == (1, 27)
    assert kept["optimizer.v.h.bias"].shape == (7,)
    assert "optimizer.v.h.weight" not in kept
    steps(trainer, lambda weights: [torch.optim.Adafactor(weights.values(), **given)])


class Muon:
    """Jordan's optimizer as PyTorch states it, without its rounding to bf16."""

    def __init__(
        self,
        weights: list[Any],
        lr: float,
        decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        turns: int = 5,
        rms: bool = False,
    ) -> None:
        self.given = lr, decay, momentum, nesterov, turns, rms
        self.kept = [(w, torch.zeros_like(w)) for w in weights]

    @torch.no_grad()
    def step(self) -> None:
        lr, decay, momentum, nesterov, turns, rms = self.given
        for w, average in self.kept:
            average.lerp_(w.grad, 1 - momentum)
            update = self.orthogonal(w.grad.lerp(average, momentum) if nesterov else average, turns)
            rows, columns = w.shape
            w.mul_(1 - lr * decay)
            size = 0.2 * max(rows, columns) ** 0.5 if rms else max(1, rows / columns) ** 0.5
            w.sub_(lr * size * update)

    @staticmethod
    def orthogonal(g: Any, turns: int) -> Any:
        a, b, c = 3.4445, -4.775, 2.0315
        x = g.T if g.shape[0] > g.shape[1] else g
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(turns):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.T if g.shape[0] > g.shape[1] else x


@pytest.mark.parametrize(
    ("told", "given"),
    [
        ("lr: 0.02", {}),
        (
            f"{NO_NESTEROV}, ns_steps: 3, adjust_lr_fn: match_rms_adamw, momentum: 0.5",
            {"nesterov": False, "decay": 0.0, "turns": 3, "rms": True, "momentum": 0.5},
        ),
    ],
    ids=["defaults", "others"],
)
def test_muon_beside_other_optimizers(told: str, given: dict[str, Any], tmp_path: Path) -> None:
    """Wide and tall matrices by Muon, biases by AdamW, a convolution by SGD."""

    def optimizers(weights: dict[str, Any]) -> list[Any]:
        biases = [w for n, w in weights.items() if n.endswith(".bias") and not n.startswith("c.")]
        convolution = [weights["c.weight"]]
        biases.append(weights["c.bias"])
        return [
            Muon([weights["h.weight"], weights["out.weight"]], 0.02, **given),
            torch.optim.AdamW(biases, lr=0.02),
            torch.optim.SGD(convolution, lr=0.1, momentum=0.9),
        ]

    steps(made(tmp_path, f"{{muon: {{{told}}}}}", MUON), optimizers)


def test_muon_is_pytorchs_but_for_its_rounding() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    start, slope = (
        torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
        for n in (0, 1)
    )
    found = []
    for make in (lambda w: Muon(w, 0.1), lambda w: torch.optim.Muon(w, lr=0.1)):
        weight = start.clone().requires_grad_()
        weight.grad = slope
        made_one = make([weight])
        made_one.step()
        made_one.step()
        found.append(weight.detach().numpy() - start.numpy())
    np.testing.assert_allclose(*found, atol=0.02 * np.abs(found[0]).max())
