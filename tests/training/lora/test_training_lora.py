"""Factors of low rank in f64 beside PyTorch: products, lookups, convolutions and other uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lora_specs import FACTORS, batch, made


def forward(torch: Any, w: dict[str, Any], ids: Any, image: Any) -> Any:
    """The model in PyTorch with adapters as PEFT writes them: x A^T B^T beside x W^T."""
    F = torch.nn.functional
    a, b, s = ({name: one[n] for name, one in FACTORS.items()} for n in range(3))

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias")) + s[name] * F.linear(
            F.linear(x, w[a[name]]), w[b[name]]
        )

    x = F.embedding(ids, w["table.weight"]) + F.embedding(ids, w[a["table"]].T) @ w[b["table"]].T
    x = torch.tanh(linear(torch.tanh(linear(x, "query")), "key"))
    x = x @ w["mix"] + s["mix"] * (x @ w[a["mix"]].T) @ w[b["mix"]].T
    i = F.conv2d(image, w["conv.weight"], w["conv.bias"], 2, 1)
    i = i + F.conv2d(F.conv2d(image, w[a["conv"]], None, 2, 1), w[b["conv"]])
    parted = w["parted.weight"] + (w[b["parted"]].flatten(1) @ w[a["parted"]].flatten(1)).reshape(
        4, 2, 2, 2
    )
    i = torch.tanh(F.conv2d(torch.tanh(i), parted, None, groups=2)).mean((2, 3))
    scaled = torch.tanh(w["scaled"] + w[b["scaled"]] @ w[a["scaled"]])
    return linear(torch.tanh(x.mean(1) + i @ scaled), "head")


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_factors_learn_as_in_pytorch(target: str, tmp_path: Path) -> None:
    """Thirty steps; the merged model is the one that was trained."""
    torch = pytest.importorskip("torch")
    trainer = made(tmp_path, target=target)
    first = trainer.weights(merged=False)
    w = {name: torch.tensor(array) for name, array in first.items()}
    learn = {name for name in w if "lora" in name} | {"head.bias", "conv.bias"}
    assert len(learn) == 18
    groups = [
        [w[n] for n in sorted(learn) if "lora_B" not in n],
        [w[n] for n in sorted(learn) if "lora_B" in n],
    ]
    for name in learn:
        w[name].requires_grad_()
    optimizer = torch.optim.AdamW(
        [{"params": groups[0]}, {"params": groups[1], "lr": 0.05}], lr=0.02, weight_decay=0.1
    )
    for seed in range(30):
        given = batch(seed)
        told = trainer.step(**given)
        ids, image, y = (torch.tensor(given[name]) for name in ("ids", "image", "y"))
        loss = torch.nn.functional.cross_entropy(forward(torch, w, ids, image), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert told["loss"] == pytest.approx(float(loss.detach()), rel=1e-9)
    found = trainer.weights(merged=False)
    for name, tensor in w.items():
        np.testing.assert_allclose(found[name], tensor.detach(), 1e-9, 1e-11, err_msg=name)
        assert np.array_equal(found[name], first[name]) == (name not in learn)
    given = batch(99)
    expected = forward(torch, w, torch.tensor(given["ids"]), torch.tensor(given["image"]))
    np.testing.assert_allclose(
        trainer(ids=given["ids"], image=given["image"]), expected.detach(), 1e-9
    )
    model = trainer.model()
    np.testing.assert_allclose(
        model(ids=given["ids"], image=given["image"]), expected.detach(), 1e-9
    )


OTHER = """\
xlac: 1
model: other
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {ids: "i64[batch]", x: "f64[4, batch]", s: "f64[batch, 3, 4]"}
graph:
  left: {op: weight, type: "f64[5, 4]"}
  turned: left @ x
  token: {op: embedding, in: ids, count: 6, dim: 5, dtype: f64}
  both: {op: linear, in: [token, "transpose(turned, perm=[1, 0])"], units: 4}
  steps:
    scan: {t: s}
    axis: 1
    carry: {h: {init: both}}
    body: {n: {op: linear, in: t, units: 4}, h1: tanh(h + n)}
    next: {h: h1}
  tall: {op: conv1d, in: s, filters: 4, kernel: 3, pad: 1, channels_last: true}
  self: {op: weight, type: "f64[4, 4]"}
  out: steps.h @ (self @ self) + mean(tall, axis=1)
outputs: [out]
train:
  batch: batch
  loss: mean(out ** 2.0)
  optimizer: {sgd: {lr: 0.1}}
  lora: {"*weight*": {rank: 2}, left: {rank: 1}, self: {rank: 2, alpha: 3}}
"""


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_other_uses_mean_the_merged_model(target: str, tmp_path: Path) -> None:
    """Weights on the left, one of several of a layer, inside a loop, used twice, channels last."""
    trainer = made(tmp_path, OTHER, target)
    rng = np.random.default_rng(0)
    state = trainer.state()
    drawn = {n: rng.normal(size=a.shape) for n, a in state.items() if "lora" in n}
    assert len(drawn) == 14
    trainer.restore({**state, **drawn})
    given = {
        "ids": rng.integers(0, 6, 3),
        "x": rng.normal(size=(4, 3)),
        "s": rng.normal(size=(3, 3, 4)),
    }
    np.testing.assert_allclose(trainer(**given), trainer.model()(**given), 1e-11, 1e-13)
    before = trainer.weights(merged=False)
    trainer.step(**given)
    after = trainer.weights(merged=False)
    assert all(np.array_equal(before[n], after[n]) == (n not in drawn) for n in before)
