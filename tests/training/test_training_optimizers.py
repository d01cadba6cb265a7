"""Adafactor and Muon beside PyTorch's and NumPy's in f64, groups with another optimizer, and what a
spec may declare: slots of any shape, blocks, what must hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.spec.load import load_training
from xlac.spec.training.optimizer import built_in
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")
F = torch.nn.functional

SPEC = """\
xlac: 1
model: conv
dims: {{batch: {{max: 16}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "{dtype}[batch, 2, 5, 5]", y: "i64[batch]"}}
graph:
  c: {{op: conv2d, in: x, filters: 3, kernel: 3}}
  h: {{op: linear, in: "tanh(flatten(c, axis=1))", units: 7}}
  out: {{op: linear, in: tanh(h), units: 4}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {optimizer}
  groups: {groups}
"""
MUON = '{"*.bias": {adamw: {lr: 0.02}}, "c.*": {sgd: {lr: 0.1, momentum: 0.9}}}'


def made(folder: Path, optimizer: str, groups: str = "{}", target: str = "reference", dtype: str = "f64") -> Trainer:  # fmt: skip
    file = folder / "m.yaml"
    file.write_text(SPEC.format(optimizer=optimizer, groups=groups, dtype=dtype))
    return Trainer(file, target=target)


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
        loss = F.cross_entropy(linear(linear(maps.flatten(1).tanh(), "h").tanh(), "out"), torch.tensor(y))  # fmt: skip
        for weight in weights.values():
            weight.grad = None
        loss.backward()
        for one in used:
            one.step()
        assert found["loss"] == pytest.approx(float(loss.detach()), rel=1e-10)
    for name, array in trainer.weights().items():
        np.testing.assert_allclose(array, weights[name].detach(), 1e-9, 1e-11, err_msg=name)


@pytest.mark.parametrize("given", [
    {}, {"lr": 0.3, "beta2_decay": -0.5, "eps": (1e-8, 0.01), "d": 1.5, "weight_decay": 0.1},
], ids=["defaults", "others"])  # fmt: skip
def test_adafactor(given: dict[str, Any], tmp_path: Path) -> None:
    """Of matrices, of stacks of matrices and of vectors."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}  # fmt: skip
    trainer = made(tmp_path, f"{{adafactor: {told}}}".replace("'", ""))
    kept = trainer.state()
    assert kept["optimizer.row.c.weight"].shape == (3, 2, 3, 1)
    assert kept["optimizer.column.h.weight"].shape == (1, 27)
    assert kept["optimizer.v.h.bias"].shape == (7,)
    assert "optimizer.v.h.weight" not in kept
    steps(trainer, lambda weights: [torch.optim.Adafactor(weights.values(), **given)])


@pytest.mark.parametrize("name", [*built_in().optimizers])
def test_every_optimizer_learns(name: str, tmp_path: Path) -> None:
    trainer = made(
        tmp_path, f"{{{name}: {{lr: 0.005}}}}", '{"*.bias": {adamw: {}}, "c.*": {sgd: {lr: 0.1}}}'
    )
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(6, 2, 5, 5)), "y": rng.integers(0, 4, 6)}
    losses = [trainer.step(**given)["loss"] for _ in range(8)]
    assert losses[-1] < losses[0]


class Muon:
    """Jordan's optimizer as PyTorch states it, without its rounding to bf16."""

    def __init__(self, weights: list[Any], lr: float, decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True, turns: int = 5, rms: bool = False) -> None:  # fmt: skip
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


@pytest.mark.parametrize(("told", "given"), [
    ("lr: 0.02", {}),
    ("lr: 0.02, nesterov: false, weight_decay: 0.0, ns_steps: 3, adjust_lr_fn: match_rms_adamw, momentum: 0.5",
     {"nesterov": False, "decay": 0.0, "turns": 3, "rms": True, "momentum": 0.5}),
], ids=["defaults", "others"])  # fmt: skip
def test_muon_beside_other_optimizers(told: str, given: dict[str, Any], tmp_path: Path) -> None:
    """Wide and tall matrices by Muon, biases by AdamW, a convolution by SGD."""

    def optimizers(weights: dict[str, Any]) -> list[Any]:
        biases = [w for n, w in weights.items() if n.endswith(".bias") and not n.startswith("c.")]
        convolution = [weights["c.weight"]]
        biases.append(weights["c.bias"])
        return [
            Muon([weights["h.weight"], weights["out.weight"]], 0.02, **given),
            torch.optim.AdamW(biases, lr=0.02), torch.optim.SGD(convolution, lr=0.1, momentum=0.9),
        ]  # fmt: skip

    steps(made(tmp_path, f"{{muon: {{{told}}}}}", MUON), optimizers)


def test_muon_is_pytorchs_but_for_its_rounding() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    start, slope = (torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in (0, 1))  # fmt: skip
    found = []
    for make in (lambda w: Muon(w, 0.1), lambda w: torch.optim.Muon(w, lr=0.1)):
        weight = start.clone().requires_grad_()
        weight.grad = slope
        made_one = make([weight])
        made_one.step()
        made_one.step()
        found.append(weight.detach().numpy() - start.numpy())
    np.testing.assert_allclose(*found, atol=0.02 * np.abs(found[0]).max())


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("optimizer", ["{adafactor: {lr: 0.1}}", "{muon: {lr: 0.02}}"])
def test_targets_agree(optimizer: str, target: str, tmp_path: Path) -> None:
    groups = MUON if "muon" in optimizer else "{}"
    one, other = (made(tmp_path, optimizer, groups, t, "f32") for t in ("reference", target))
    rng = np.random.default_rng(0)
    for _ in range(3):
        given = {"x": rng.normal(size=(6, 2, 5, 5)).astype(np.float32), "y": rng.integers(0, 4, 6)}
        assert other.step(**given)["loss"] == pytest.approx(one.step(**given)["loss"], rel=1e-5)
    for name, array in one.state().items():
        np.testing.assert_allclose(other.state()[name], array, 1e-3, 1e-5, err_msg=name)


def test_the_rate_of_a_group_with_another_optimizer_is_set_in_proportion(tmp_path: Path) -> None:
    trainer = made(tmp_path, "{muon: {lr: 0.02}}", MUON)
    trainer.set_rate(0.01)
    kept = trainer.state()
    assert kept["optimizer.lr"] == 0.01
    assert sorted(float(kept[n]) for n in kept if n.startswith("optimizer.lr.")) == [0.01, 0.05]  # fmt: skip


@pytest.mark.parametrize("rate", [-0.5, float("nan"), float("inf")])
def test_what_is_no_rate_is_not_set(rate: float, tmp_path: Path) -> None:
    trainer = made(tmp_path, "{muon: {lr: 0.02}}", MUON)
    with pytest.raises(SourceError, match=r"at least 0.*XL6051"):
        trainer.set_rate(rate)
    assert trainer.state()["optimizer.lr"] == 0.02


OWN = """\
optimizers:
  own:
    params: {lr: 0.1, turns: 2}
    needs: {turns < 9: own turns at most 8 times}
    state: {total: {shape: SHAPE, init: 1.0}, rows: {shape: "shape[:1]", when: rank > 1}}
    expr:
      s: {scan: {}, length: $turns, carry: {t: {init: total}}, next: {t: t * 1.5}}
      moved: {block: halved, in: g}
    next: {w: w - lr * moved / (1 + sum(s.t)), total: s.t, rows: "rows + sum(g, axis=-1) if ${rank == 2} else rows"}
blocks:
  halved: {inputs: [v], graph: {half: v * 0.5}, outputs: [half]}
"""


def with_own(folder: Path, shape: str = "[2]", optimizer: str = "{own: {}}") -> Path:
    file = folder / "m.yaml"
    text = SPEC.format(optimizer=optimizer, groups='{"c.*": {sgd: {lr: 0.0}}}', dtype="f64")
    file.write_text(text + OWN.replace("SHAPE", shape))
    return file


def test_slots_of_their_own_shape_blocks_and_loops(tmp_path: Path) -> None:
    trainer = Trainer(with_own(tmp_path), target="reference")
    before = trainer.weights()
    trainer.step(x=np.ones((2, 2, 5, 5)), y=np.array([0, 3]))
    kept = trainer.state()
    np.testing.assert_array_equal(kept["optimizer.total.h.bias"], [2.25, 2.25])
    slope = (before["h.weight"] - kept["h.weight"]) / 0.1 * 2 * (1 + 2 * 2.25)
    np.testing.assert_allclose(kept["optimizer.rows.h.weight"], slope.sum(-1), 1e-9)
    assert kept["optimizer.rows.h.weight"].shape == (7,)


@pytest.mark.parametrize(("shape", "optimizer", "line", "code", "told"), [
    ("[2]", "{muon: {lr: 0.1}}", 14, "XL2048", "muon learns matrices, and 'h.bias' is f64[7]"),
    ("[2]", "{muon: {lr: 0.1, adjust_lr_fn: rms}}", 14, "XL2048", "original or match_rms_adamw"),
    ("[2]", "{own: {turns: 9}}", 14, "XL2048", "own turns at most 8 times"),
    ("[2]", "{adamw: {betas: [0.9]}}", 14, "XL1012", "a list of 2 numbers"),
    ("[2]", "{adamw: {betas: [0.9, x]}}", 14, "XL1012", "a list of 2 numbers"),
    ("rank", "{own: {}}", 20, "XL2006", "the sizes of 'total' are a list"),
    ('["shape[9]"]', "{own: {}}", 20, "XL2017", "out of range"),
    ('["rank - 3"]', "{own: {}}", 20, "XL2006", "a size is not negative"),
    ('"shape[:1] + 1"', "{own: {}}", 20, "XL2017", "does not work"),
    ('"rank[:1]"', "{own: {}}", 20, "XL2017", "does not work"),
])  # fmt: skip
def test_mistakes(shape: str, optimizer: str, line: int, code: str, told: str, tmp_path: Path) -> None:  # fmt: skip
    with pytest.raises(SourceError) as wrong:
        load_training(with_own(tmp_path, shape, optimizer))
    assert f"m.yaml:{line}:" in str(wrong.value)
    assert f"[{code}]" in str(wrong.value)
    assert told in str(wrong.value)


def test_an_optimizer_has_no_weights(tmp_path: Path) -> None:
    file = with_own(tmp_path)
    file.write_text(
        file.read_text().replace("{block: halved, in: g}", "{op: linear, in: g, units: 2}")
    )
    with pytest.raises(SourceError, match=r"m\.yaml:21:.*weights of its own.*XL2012"):
        load_training(file)
