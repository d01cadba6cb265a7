"""Several losses in one step, beside PyTorch's alternating updates in f64; mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.cli import status
from xlac.training.loop.train import train
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

GAN = """\
xlac: 1
model: gan
dims: {batch: {max: 8}}
weights: {init: {seed: 3}}
inputs: {z: "f64[batch, 3]", real: "f64[batch, 4]"}
graph:
  up: {op: linear, in: z, units: 6}
  fake: {op: linear, in: tanh(up), units: 4}
  seen: concat([real, fake], axis=0)
  first: {op: linear, in: seen, units: 5}
  score: {op: linear, in: "leaky_relu(first, alpha=0.2)", units: 1}
  on_real: score[:batch, 0]
  on_fake: score[batch:, 0]
outputs: [fake]
train:
  batch: batch
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


def made(folder: Path, text: str = GAN, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text)
    return Trainer(file, target=target)


def batch(seed: int, size: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"z": rng.normal(size=(size, 3)), "real": rng.normal(size=(size, 4)) * 0.5 + 1.0}


class TorchGan:
    """The same two networks in PyTorch, and the usual step: the discriminator first."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.torch = pytest.importorskip("torch")
        self.w = {n: self.torch.tensor(a, requires_grad=True) for n, a in weights.items()}
        optim = self.torch.optim
        mine = lambda *names: [self.w[n] for n in names]
        self.d = optim.Adam(
            mine("first.weight", "first.bias", "score.weight", "score.bias"),
            lr=0.01,
            betas=(0.5, 0.999),
        )
        self.g = optim.SGD(
            [
                {"params": mine("up.weight", "fake.weight")},
                {"params": mine("up.bias", "fake.bias"), "lr": 0.1},
            ],
            lr=0.05,
            momentum=0.9,
        )

    def linear(self, x: Any, name: str) -> Any:
        return self.torch.nn.functional.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def score(self, x: Any) -> Any:
        F = self.torch.nn.functional
        return self.linear(F.leaky_relu(self.linear(x, "first"), 0.2), "score")[:, 0]

    def losses(self, z: Any, real: Any) -> tuple[Any, Any]:
        F = self.torch.nn.functional
        fake = self.linear(self.torch.tanh(self.linear(self.torch.tensor(z), "up")), "fake")
        first = (
            F.softplus(-self.score(self.torch.tensor(real))).mean()
            + F.softplus(self.score(fake.detach())).mean()
        )
        return first, fake

    def step(self, z: Any, real: Any, in_turn: bool = True) -> tuple[float, float]:
        F, clip = self.torch.nn.functional, self.torch.nn.utils.clip_grad_norm_
        first, fake = self.losses(z, real)
        self.d.zero_grad()
        first.backward()
        clip([p for group in self.d.param_groups for p in group["params"]], 0.5)
        if in_turn:
            self.d.step()
        second = F.softplus(-self.score(fake)).mean()
        self.g.zero_grad()
        kept = {p: p.grad.clone() for group in self.d.param_groups for p in group["params"]}
        second.backward()
        self.g.step()
        if not in_turn:
            for p, grad in kept.items():
                p.grad = grad
            self.d.step()
        return float(first.detach()), float(second.detach())


@pytest.mark.parametrize(("order", "target"), [("in_turn", "cpu"), ("together", "cpu")])
def test_a_gan_learns_as_in_pytorch(order: str, target: str, tmp_path: Path) -> None:
    """Thirty steps, losses and weights after each of them."""
    text = GAN.replace("  losses:", f"  order: {order}\n  losses:") if order != "in_turn" else GAN
    trainer = made(tmp_path, text, target)
    beside = TorchGan(trainer.weights())
    assert trainer.metrics == ("discriminator", "generator", "right")
    for seed in range(30):
        given = batch(seed, 4 if seed == 7 else 5)
        told = trainer.step(**given)
        first, second = beside.step(**given, in_turn=order == "in_turn")
        assert told["discriminator"] == pytest.approx(first, rel=1e-8)
        assert told["generator"] == pytest.approx(second, rel=1e-8)
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, beside.w[name].detach(), 1e-8, 1e-10, err_msg=name)


def test_two_losses_of_one_weight_act_one_after_the_other(tmp_path: Path) -> None:
    """The second one's gradient is at what the first has left, and each keeps its own momentum."""
    torch = pytest.importorskip("torch")
    trainer = made(tmp_path, SHARED.format(order="in_turn"))
    w = torch.tensor(trainer.weights()["out.weight"], requires_grad=True)
    first = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    second = torch.optim.Adam([w], lr=0.05)
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=(4, 3))
        told = trainer.step(x=x)
        shown = []
        for optimizer, loss in (
            (first, lambda y: (y**2).mean()),
            (second, lambda y: (y - 1).abs().mean()),
        ):
            optimizer.zero_grad()
            value = loss(torch.tensor(x) @ w.T)
            value.backward()
            optimizer.step()
            shown.append(float(value.detach()))
        assert [told["near"], told["far"]] == pytest.approx(shown, rel=1e-10)
    np.testing.assert_allclose(trainer.weights()["out.weight"], w.detach(), 1e-10, 1e-12)
    names = {name for name in trainer.state() if name.startswith("optimizer.")}
    assert {
        "optimizer.near.velocity.out.weight",
        "optimizer.far.m.out.weight",
        "optimizer.far.lr",
    } <= names


SHARED = """\
xlac: 1
model: shared
dims: {{batch: {{max: 8}}}}
weights: {{init: {{seed: 3}}}}
inputs: {{x: "f64[batch, 3]"}}
graph: {{out: {{op: linear, in: x, units: 2, bias: false}}}}
outputs: [out]
train:
  batch: batch
  order: {order}
  losses:
    near: {{loss: mean(out ** 2.0), optimizer: {{sgd: {{lr: 0.1, momentum: 0.9}}}}}}
    far: {{loss: mean(abs(out - 1.0)), optimizer: {{adam: {{lr: 0.05}}}}}}
"""


def test_what_is_computed_again_measures_and_draws_again(tmp_path: Path) -> None:
    """A batch_norm behind a weight that learned already measures once more in the second turn, with
    the weight as it is then; one before it does not. What is dropped then is drawn anew.
    """
    trainer = made(tmp_path, MEASURED)
    x = np.random.default_rng(0).normal(size=(8, 3)) + 2.0
    before = trainer.weights()
    told = trainer.step(x=x)
    after = trainer.weights()
    np.testing.assert_allclose(after["early.mean"], 0.1 * x.mean(0), 1e-12)
    means = [(x @ weights["out.weight"].T).mean(0) for weights in (before, after)]
    assert np.abs(means[0] - means[1]).min() > 0.1
    expected = 0.1 * (0.81 * means[0] + 0.9 * means[1] + means[1])  # the third turn: late.weight
    np.testing.assert_allclose(after["late.mean"], expected, 1e-9)
    assert told["dropped"] != told["again"]


MEASURED = """\
xlac: 1
model: measured
dims: {batch: {max: 8}}
weights: {init: {seed: 3}}
inputs: {x: "f64[batch, 3]"}
graph:
  early: {op: batch_norm, in: x}
  out: {op: linear, in: x, units: 2, bias: false}
  late: {op: batch_norm, in: out}
  kept: dropout(late * 0.0 + 1.0, p=0.5)
outputs: [kept]
train:
  batch: batch
  losses:
    first:
      loss: mean(out ** 3.0) + 0.0 * mean(early) + 0.0 * mean(late)
      wrt: [out.weight]
      optimizer: {sgd: {lr: 0.5, momentum: 0.9}}
    dropped:
      loss: mean(kept) + mean(late ** 2.0) * 0.0
      wrt: [late.weight]
      optimizer: {sgd: {lr: 0.0}}
    again:
      loss: mean(kept) + mean(late ** 4.0) * 0.0
      wrt: [late.bias]
      optimizer: {sgd: {lr: 0.0}}
"""


def test_nothing_is_written_where_one_loss_has_no_finite_gradient(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    trainer.step(**batch(0))
    before = trainer.state()
    wrong = batch(1)
    wrong["real"][0, 0] = np.inf
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert all(np.array_equal(before[name], array) for name, array in trainer.state().items())


def test_each_loss_has_its_rate(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    with pytest.raises(SourceError, match="XL6051"):
        trainer.set_rate(0.5)
    with pytest.raises(SourceError, match="XL6051"):
        trainer.set_rate(0.5, loss="generators")
    trainer.set_rate(0.5, loss="generator")
    state = trainer.state()
    assert (state["optimizer.generator.lr"], state["optimizer.generator.lr.1"]) == (0.5, 1.0)
    assert state["optimizer.discriminator.lr"] == 0.01


def test_a_run_reports_each_loss_and_keeps_the_best_of_the_one_that_is_named(
    tmp_path: Path,
) -> None:
    trainer = made(tmp_path)
    data = {name: np.concatenate([batch(n)[name] for n in range(4)]) for name in ("z", "real")}
    run = train(trainer, data, tmp_path / "run", validate=data, epochs=2, batch=5)
    assert list(run.metrics[-1])[2:5] == ["discriminator", "generator", "right"]
    assert not (tmp_path / "run" / "best.safetensors").exists()
    trainer.reset()
    chosen = {"best": "validate_generator", "epochs": 2, "batch": 5}
    train(trainer, data, tmp_path / "best", validate=data, **chosen)
    assert (tmp_path / "best" / "best.safetensors").exists()
    with pytest.raises(SourceError, match=r"(?s)XL6337.*--best discriminator:min"):
        train(trainer, data, tmp_path / "other", epochs=2, batch=5, patience=1)
    trainer.reset()
    data["real"][:] = np.inf
    with pytest.raises(SourceError, match="XL6031"):
        train(trainer, data, tmp_path / "none", epochs=1, batch=5)


def test_as_c_each_loss_has_a_result_and_a_rate(tmp_path: Path) -> None:
    (tmp_path / "gan.yaml").write_text(GAN)
    asked = "--target c --emit c,h --dim batch=4".split()
    gan, out = str(tmp_path / "gan.yaml"), str(tmp_path / "out")
    assert status(["build", gan, *asked, "-o", out]) == 0
    header = (tmp_path / "out" / "gan.h").read_text()
    assert "gan_set_lr_discriminator" in header
    assert "gan_set_lr_generator" in header
    step = re.search(r"gan_step\(([^)]*)\)", header)
    assert step is not None
    names = re.findall(r"\*\s*(\w+)", step[1])
    assert names[-5:] == "z real discriminator generator right".split()
