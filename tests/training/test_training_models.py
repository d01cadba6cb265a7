"""Whole models in f64, step for step beside PyTorch's: a transformer of blocks, a layer of BERT, a
scanned LSTM, residual convolutions, an encoder and decoder with skips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_specs import BERT, GPT, LSTM, RESIDUAL, UNET

from xlac.training.trainer import Trainer

torch = pytest.importorskip("torch")
F = torch.nn.functional
Weights = Mapping[str, Any]


def linear(x: Any, w: Weights, name: str) -> Any:
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def norm(x: Any, w: Weights, name: str) -> Any:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


def gpt(w: Weights, ids: Any, label: Any) -> Any:
    x = F.embedding(ids, w["token.weight"]) + w["place"]
    for n in range(2):
        p = f"blocks.{n}"
        inner = norm(x, w, f"{p}.n1")
        parts = [linear(inner, w, f"{p}.{k}").unflatten(-1, (2, 8)).transpose(1, 2) for k in "qkv"]
        found = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(found, w, f"{p}.o")
        x = x + linear(F.gelu(linear(norm(x, w, f"{p}.n2"), w, f"{p}.up")), w, f"{p}.down")
    return F.cross_entropy(linear(norm(x, w, "end"), w, "out").flatten(0, 1), label.flatten())


def bert(w: Weights, x: Any, y: Any) -> Any:
    parts = [linear(x, w, k).unflatten(-1, (2, 8)).transpose(1, 2) for k in "qkv"]
    found = F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
    x = norm(x + linear(found, w, "o"), w, "n1")
    x = norm(x + linear(F.gelu(linear(x, w, "up")), w, "down"), w, "n2")
    return ((x - y) ** 2).mean()


def lstm(w: Weights, x: Any, y: Any) -> Any:
    names = sorted(n for n in w if "gates" in n)
    bias = next(n for n in names if n.endswith("bias"))
    first, second = (n for n in names if n != bias)
    if w[first].shape[1] != 4:
        first, second = second, first
    h = c = torch.zeros(len(x), 5, dtype=torch.float64)
    found = []
    for t in range(6):
        i, f, g, o = (x[:, t] @ w[first].T + h @ w[second].T + w[bias]).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return ((linear(torch.stack(found, 1), w, "out") - y) ** 2).mean()


def residual(w: Weights, x: Any, y: Any) -> Any:
    for p, stride in (("a", 1), ("b", 2)):
        h = F.conv2d(x, w[f"{p}.c1.weight"], stride=stride, padding=1)
        h = F.relu(F.batch_norm(h, None, None, w[f"{p}.n1.weight"], w[f"{p}.n1.bias"], True))
        h = F.conv2d(h, w[f"{p}.c2.weight"], padding=1)
        h = F.batch_norm(h, None, None, w[f"{p}.n2.weight"], w[f"{p}.n2.bias"], True)
        x = F.relu(h + F.conv2d(x, w[f"{p}.s.weight"], stride=stride))
    return F.cross_entropy(linear(F.avg_pool2d(x, 2).flatten(1), w, "out"), y)


def unet(w: Weights, x: Any, y: Any) -> Any:
    def conv(x: Any, name: str) -> Any:
        return F.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=1)

    d = F.relu(conv(x, "down"))
    m = F.silu(conv(F.max_pool2d(d, 2), "middle"))
    up = F.conv_transpose2d(m, w["up.weight"], w["up.bias"], stride=2)
    return (conv(torch.cat([up, d], 1), "out") - y).abs().mean()


def ids(rng: np.random.Generator) -> dict[str, Any]:
    return {"ids": rng.integers(0, 11, (4, 7)), "label": rng.integers(0, 11, (4, 7))}


def images(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.normal(size=(4, 3, 8, 8)), "y": rng.integers(0, 3, 4)}


MODELS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "bert": (
        BERT,
        bert,
        lambda r: {k: r.normal(size=(4, 7, 16)) for k in "xy"},
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ),
    "gpt": (GPT, gpt, ids, lambda p: torch.optim.AdamW(p, lr=0.01)),
    "lstm": (
        LSTM,
        lstm,
        lambda r: {"x": r.normal(size=(4, 6, 4)), "y": r.normal(size=(4, 6, 3))},
        lambda p: torch.optim.RMSprop(p, lr=0.01),
    ),
    "residual": (
        RESIDUAL,
        residual,
        images,
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    ),
    "unet": (
        UNET,
        unet,
        lambda r: {"x": r.normal(size=(3, 2, 8, 8)), "y": r.normal(size=(3, 1, 8, 8))},
        lambda p: torch.optim.Adam(p, lr=0.01),
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", MODELS)
def test_thirty_steps(name: str, tmp_path: Path) -> None:
    text, loss, draw, optimizer = MODELS[name]
    file = tmp_path / "m.yaml"
    file.write_text(text)
    trainer = Trainer(file, target="cpu")
    learned = {
        n: torch.tensor(a, requires_grad=True)
        for n, a in trainer.weights().items()
        if not n.endswith((".mean", ".variance"))
    }
    stepper = optimizer(list(learned.values()))
    rng = np.random.default_rng(0)
    for number in range(30):
        given = draw(rng)
        found = trainer.step(**given)
        stepper.zero_grad()
        value = loss(learned, *map(torch.tensor, given.values()))
        value.backward()
        if "clip" in text:
            torch.nn.utils.clip_grad_norm_(list(learned.values()), 1.0)
        stepper.step()
        assert found["loss"] == pytest.approx(float(value.detach()), rel=1e-9), number
    weights = trainer.weights()
    for n, tensor in learned.items():
        np.testing.assert_allclose(weights[n], tensor.detach(), 1e-8, 1e-9, err_msg=n)
