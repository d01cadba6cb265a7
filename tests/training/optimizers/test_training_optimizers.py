"""Every optimizer learns, targets agree, rates of groups with another optimizer, and what a spec
may declare: slots of any shape, blocks, what must hold.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlac.spec.load import load_training
from xlac.spec.training.rates import built_in
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

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


def made(
    folder: Path, optimizer: str, groups: str = "{}", target: str = "reference", dtype: str = "f64"
) -> Trainer:
    file = folder / "m.yaml"
    file.write_text(SPEC.format(optimizer=optimizer, groups=groups, dtype=dtype))
    return Trainer(file, target=target)


@pytest.mark.parametrize("name", [*built_in().optimizers])
@pytest.mark.sampled(6)
def test_every_optimizer_learns(name: str, tmp_path: Path) -> None:
    trainer = made(
        tmp_path, f"{{{name}: {{lr: 0.005}}}}", '{"*.bias": {adamw: {}}, "c.*": {sgd: {lr: 0.1}}}'
    )
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(6, 2, 5, 5)), "y": rng.integers(0, 4, 6)}
    losses = [trainer.step(**given)["loss"] for _ in range(8)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("optimizer", ["{adafactor: {lr: 0.1}}", "{muon: {lr: 0.02}}"])
@pytest.mark.sampled(4)
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
    assert sorted(float(kept[n]) for n in kept if n.startswith("optimizer.lr.")) == [0.01, 0.05]


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
    next: {w: w - lr * moved / (1 + sum(s.t)), total: s.t,
           rows: "rows + sum(g, axis=-1) if ${rank == 2} else rows"}
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


@pytest.mark.parametrize(
    ("shape", "optimizer", "line", "code", "told"),
    [
        ("[2]", "{muon: {lr: 0.1}}", 14, "XL2048", "muon learns matrices, and 'h.bias' is f64[7]"),
        (
            "[2]",
            "{muon: {lr: 0.1, adjust_lr_fn: rms}}",
            14,
            "XL2048",
            "original or match_rms_adamw",
        ),
        ("[2]", "{own: {turns: 9}}", 14, "XL2048", "own turns at most 8 times"),
        ("[2]", "{adamw: {betas: [0.9]}}", 14, "XL1012", "a list of 2 numbers"),
        ("[2]", "{adamw: {betas: [0.9, x]}}", 14, "XL1012", "a list of 2 numbers"),
        ("rank", "{own: {}}", 20, "XL2006", "the sizes of 'total' are a list"),
        ('["shape[9]"]', "{own: {}}", 20, "XL2017", "out of range"),
        ('["rank - 3"]', "{own: {}}", 20, "XL2006", "a size is not negative"),
        ('"shape[:1] + 1"', "{own: {}}", 20, "XL2017", "does not work"),
        ('"rank[:1]"', "{own: {}}", 20, "XL2017", "does not work"),
    ],
)
def test_mistakes(
    shape: str, optimizer: str, line: int, code: str, told: str, tmp_path: Path
) -> None:
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
