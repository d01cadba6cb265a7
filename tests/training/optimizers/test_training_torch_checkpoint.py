"""Steps that go on from a checkpoint of PyTorch as PyTorch itself does, in f64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")

SPEC = """\
xlac: 1
model: net
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f64[batch, 3]", y: "f64[batch, 2]"}
graph:
  a: {op: linear, in: x, units: 4}
  b: {op: linear, in: tanh(a), units: 2}
outputs: [b]
train:
  batch: batch
  loss: mean((b - y) ** 2.0)
  optimizer: {adamw: {lr: 0.02, betas: [0.8, 0.95], weight_decay: 0.1}}
"""
ADAMW = "{adamw: {lr: 0.02, betas: [0.8, 0.95], weight_decay: 0.1}}"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    ADAMW: ("AdamW", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    "{adam: {lr: 0.02, amsgrad: true}}": ("Adam", {"lr": 0.02, "amsgrad": True}),
    "{sgd: {lr: 0.1, momentum: 0.9, dampening: 0.5}}": (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    ),
    "{momentum: {lr: 0.1}}": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "{sgd: {lr: 0.1}}": ("SGD", {"lr": 0.1}),
    "{rmsprop: {lr: 0.01, centered: true, momentum: 0.5}}": (
        "RMSprop",
        {"lr": 0.01, "centered": True, "momentum": 0.5},
    ),
    "{adagrad: {lr: 0.05, lr_decay: 0.1}}": ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
}


def trainer_of(folder: Path, optimizer: str = ADAMW) -> Trainer:
    file = folder / "net.yaml"
    file.write_text(SPEC.replace(ADAMW, optimizer))
    return Trainer(file, target="reference")


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(3, 4).double(), torch.nn.Linear(4, 2).double()

    def forward(self, x: Any) -> Any:
        return self.b(torch.tanh(self.a(x)))


def batch(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(6, 3)), "y": rng.normal(size=(6, 2))}


def learned(net: Any, optimizer: Any, seed: int) -> float:
    given = {name: torch.tensor(array) for name, array in batch(seed).items()}
    optimizer.zero_grad()
    loss = ((net(given["x"]) - given["y"]) ** 2).mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("spec", CASES)
def test_steps_go_on_as_in_pytorch(spec: str, named: bool, tmp_path: Path) -> None:
    name, given = CASES[spec]
    net = Net()
    # the names are told in another order than the weights stand in the file
    parts = list(net.named_parameters())[::-1] if named else list(net.parameters())
    optimizer = getattr(torch.optim, name)(parts, **given)
    for seed in range(4):
        learned(net, optimizer, seed)
    torch.save(
        {"net": net.state_dict(), "opt": optimizer.state_dict(), "epoch": 3}, tmp_path / "run.pt"
    )
    trainer = trainer_of(tmp_path, spec)
    trainer.load_torch(tmp_path / "run.pt")
    for seed in range(4, 10):
        assert trainer.step(**batch(seed))["loss"] == pytest.approx(
            learned(net, optimizer, seed), rel=1e-10
        )
    for key, array in trainer.weights().items():
        np.testing.assert_allclose(array, net.state_dict()[key], 1e-9, 1e-11, err_msg=key)


def saved(folder: Path, groups: bool = False, **given: Any) -> Path:
    net = Net()
    parts = [{"params": [p]} for p in net.parameters()] if groups else net.parameters()
    optimizer = torch.optim.AdamW(
        parts, **{"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1, **given}
    )
    learned(net, optimizer, 0)
    torch.save({"net": net.state_dict(), "opt": optimizer.state_dict()}, folder / "run.pt")
    return folder / "run.pt"


def test_safetensors_of_the_same_names(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    found = torch.load(saved(tmp_path))
    flat = {f"net.{n}": t for n, t in found["net"].items()}
    flat |= {
        f"opt.state.{k}.{n}": t for k, one in found["opt"]["state"].items() for n, t in one.items()
    }
    save_file(flat, tmp_path / "run.safetensors")
    one, other = trainer_of(tmp_path), trainer_of(tmp_path)
    one.load_torch(tmp_path / "run.pt")
    other.load_torch(tmp_path / "run.safetensors")
    assert one.steps_done == other.steps_done == 1
    assert all(np.array_equal(array, other.state()[n]) for n, array in one.state().items())


def test_what_does_not_fit_is_said_and_changes_nothing(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    before = trainer.state()

    def refused(text: str, path: Path, **given: Any) -> None:
        with pytest.raises(SourceError, match=text):
            trainer.load_torch(path, **given)
        assert all(np.array_equal(array, before[n]) for n, array in trainer.state().items())

    refused(
        r"(?s)betas of a.weight was \[0.9, 0.999\].*XL6052", saved(tmp_path, betas=(0.9, 0.999))
    )
    refused("no names, and are in 4 groups", saved(tmp_path, groups=True))
    refused("4 parameters, and there are names of 1", saved(tmp_path), names=["a.weight"])
    wrong = ["a.bias", "a.weight", "b.weight", "b.bias"]
    refused(r"exp_avg is float64\[4\], and a.weight is", saved(tmp_path), names=wrong)
    refused("there is no optimizer 'adam'", saved(tmp_path), optimizer="adam")
    found = torch.load(saved(tmp_path))
    torch.save({**found, "net": {"a.weight": found["net"]["a.weight"]}}, tmp_path / "part.pt")
    refused("b.bias are missing", tmp_path / "part.pt")
    torch.save(
        {**found, "net": {n: t.float() for n, t in found["net"].items()}}, tmp_path / "f32.pt"
    )
    refused("float32.*and a.weight is f64", tmp_path / "f32.pt")
    del found["opt"]["state"][2]
    torch.save(found, tmp_path / "less.pt")
    refused("has no state for b.weight", tmp_path / "less.pt")
    torch.save(Net(), tmp_path / "module.pt")
    refused("XL3004", tmp_path / "module.pt")
    (tmp_path / "torn.pt").write_bytes(saved(tmp_path).read_bytes()[:300])
    refused("XL3004", tmp_path / "torn.pt")
    trainer = trainer_of(tmp_path, "{sgd: {lr: 0.1, momentum: 0.9}}")
    before = trainer.state()
    refused("keeps no momentum_buffer for a.weight", saved(tmp_path), changed=True)


def test_averages_begin_as_the_weights_that_were_read(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, f"{ADAMW}\n  ema: {{decay: 0.5}}")
    trainer.load_torch(saved(tmp_path))
    state = trainer.state()
    assert trainer.ema.evaluate(**batch(1)) == trainer.evaluate(**batch(1))
    trainer.step(**batch(1))
    new = trainer.state()
    for name in ("a.weight", "b.bias"):
        wanted = 0.5 * state[name] + 0.5 * new[name]
        np.testing.assert_allclose(new[f"ema.{name}"], wanted, 1e-12)
