"""Steps in f64 beside PyTorch's: optimizers, clipping, groups, layers that measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.training.trainer import Trainer

torch = pytest.importorskip("torch")

MLP = """\
xlac: 1
model: mlp
dims: {{batch: {{max: 64}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "f64[batch, 5]", y: "i64[batch]"}}
graph:
  h: {{op: linear, in: x, units: 7}}
  a: tanh(h)
  out: {{op: linear, in: a, units: 3}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {optimizer}
  {more}
"""
OPTIMIZERS: list[tuple[str, Any, dict[str, Any]]] = [
    ("{sgd: {lr: 0.1}}", "SGD", {"lr": 0.1}),
    (
        "{sgd: {lr: 0.1, momentum: 0.9, dampening: 0.5, weight_decay: 0.01}}",
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01},
    ),
    (
        "{sgd: {lr: 0.1, momentum: 0.9, nesterov: true}}",
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ),
    ("{momentum: {lr: 0.1}}", "SGD", {"lr": 0.1, "momentum": 0.9}),
    ("{adam: {lr: 0.01, weight_decay: 0.1}}", "Adam", {"lr": 0.01, "weight_decay": 0.1}),
    (
        "{adamw: {lr: 0.01, betas: [0.8, 0.95], eps: 1.0e-6}}",
        "AdamW",
        {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6},
    ),
    (
        "{rmsprop: {lr: 0.01, centered: true, momentum: 0.5}}",
        "RMSprop",
        {"lr": 0.01, "centered": True, "momentum": 0.5},
    ),
    ("{rmsprop: {lr: 0.01, weight_decay: 0.1}}", "RMSprop", {"lr": 0.01, "weight_decay": 0.1}),
    ("{adagrad: {lr: 0.05, lr_decay: 0.1}}", "Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
]


def made(folder: Path, text: str, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text)
    return Trainer(file, target=target)


def module(trainer: Trainer) -> Any:
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)
    ).double()
    weights = trainer.weights()
    for layer, name in ((net[0], "h"), (net[2], "out")):
        layer.weight.data = torch.tensor(weights[f"{name}.weight"])
        layer.bias.data = torch.tensor(weights[f"{name}.bias"])
    return net


def batches(count: int = 10) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    sizes = [6, 6, 6, 4, 6][:count] + [6] * (count - 5)
    return [(rng.normal(size=(n, 5)), rng.integers(0, 3, n)) for n in sizes]


def trained(
    trainer: Trainer, net: Any, optimizer: Any, before: Any = None, after: Any = None
) -> None:
    """Ten steps of both, compared after each."""
    for x, y in batches():
        found = trainer.step(x=x, y=y)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        if before:
            before()
        optimizer.step()
        if after:
            after()
        assert found["loss"] == pytest.approx(float(loss.detach()), rel=1e-11)
    weights = trainer.weights()
    for layer, name in ((net[0], "h"), (net[2], "out")):
        np.testing.assert_allclose(weights[f"{name}.weight"], layer.weight.detach(), 1e-9, 1e-11)
        np.testing.assert_allclose(weights[f"{name}.bias"], layer.bias.detach(), 1e-9, 1e-11)


@pytest.mark.parametrize(
    ("spec", "name", "given"), OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.sampled(6)
def test_optimizers(spec: str, name: str, given: dict[str, Any], tmp_path: Path) -> None:
    trainer = made(tmp_path, MLP.format(optimizer=spec, more=""))
    net = module(trainer)
    trained(trainer, net, getattr(torch.optim, name)(net.parameters(), **given))


def test_clipping_and_groups(tmp_path: Path) -> None:
    more = 'clip: {norm: 0.05}\n  groups: {"*.bias": {weight_decay: 0.0, lr: 0.02}}'
    spec = "{adamw: {lr: 0.01, weight_decay: 0.5}}"
    trainer = made(tmp_path, MLP.format(optimizer=spec, more=more))
    net = module(trainer)
    biases = [p for n, p in net.named_parameters() if n.endswith("bias")]
    others = [p for n, p in net.named_parameters() if not n.endswith("bias")]
    optimizer = torch.optim.AdamW(
        [
            {"params": others, "weight_decay": 0.5},
            {"params": biases, "weight_decay": 0.0, "lr": 0.02},
        ],
        lr=0.01,
    )
    clip = lambda: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
    trained(trainer, net, optimizer, before=clip)


@pytest.mark.parametrize(
    ("rate", "schedule"),
    [
        (
            "{step: {initial: 0.1, every: 3, factor: 0.5}}",
            lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
        ),
        (
            '"0.1 * exp(step * -0.1)"',
            lambda o: torch.optim.lr_scheduler.ExponentialLR(o, np.exp(-0.1)),
        ),
        ("{cosine: {peak: 0.1}}", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)),
        (
            "{linear: {peak: 0.1, end: 0.02}}",
            lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.2, 10),
        ),
        (
            "{one_cycle: {peak: 0.1}}",
            lambda o: torch.optim.lr_scheduler.OneCycleLR(
                o, 0.1, total_steps=11, cycle_momentum=False
            ),
        ),
    ],
)
def test_rates(rate: str, schedule: Any, tmp_path: Path) -> None:
    trainer = made(tmp_path, MLP.format(optimizer=f"{{sgd: {{lr: {rate}}}}}", more=""))
    trainer.set_length(11 if "one_cycle" in rate else 10)
    net = module(trainer)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = schedule(optimizer)
    trained(trainer, net, optimizer, after=scheduler.step)


CONV = """\
xlac: 1
model: conv
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f64[batch, 3, 9, 9]", y: "i64[batch]"}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3, stride: 2, pad: 1}
  n: {op: batch_norm, in: c}
  r: relu(n)
  p: {op: max_pool2d, in: r, kernel: 3, stride: 2, pad: 1}
  f: flatten(p, axis=1)
  out: {op: linear, in: f, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""


def test_layers_that_measure(tmp_path: Path) -> None:
    trainer = made(tmp_path, CONV)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, 2, 1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(3, 2, 1),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 3),
    ).double()
    weights = trainer.weights()
    names = {
        "c.weight": net[0].weight,
        "c.bias": net[0].bias,
        "n.weight": net[1].weight,
        "n.bias": net[1].bias,
        "out.weight": net[5].weight,
        "out.bias": net[5].bias,
    }
    for name, tensor in names.items():
        tensor.data = torch.tensor(weights[name])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = rng.normal(size=(6, 3, 9, 9)), rng.integers(0, 3, 6)
        found = trainer.step(x=x, y=y)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
        assert found["loss"] == pytest.approx(float(loss.detach()), rel=1e-10)
    weights = trainer.weights()
    for name, tensor in names.items():
        np.testing.assert_allclose(weights[name], tensor.detach(), 1e-8, 1e-10, err_msg=name)
    np.testing.assert_allclose(weights["n.mean"], net[1].running_mean, 1e-9, 1e-11)
    np.testing.assert_allclose(weights["n.variance"], net[1].running_var, 1e-9, 1e-11)
    net.eval()
    expected = torch.nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y))
    assert trainer.evaluate(x=x, y=y)["loss"] == pytest.approx(float(expected.detach()), rel=1e-9)
