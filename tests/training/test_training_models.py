"""Whole models in f64, step for step beside PyTorch's: a transformer of blocks, a scanned LSTM, residual
convolutions, an encoder and decoder with skips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.training.trainer import Trainer

torch = pytest.importorskip("torch")
F = torch.nn.functional
Weights = Mapping[str, Any]

GPT = """\
xlac: 1
model: gpt
dims: {batch: {max: 8}}
params: {width: 16, heads: 2, words: 11, length: 7}
weights: {init: {seed: 0, tensors: {place: {scheme: normal, std: 0.5}}}}
inputs: {ids: "i64[batch, 7]", label: "i64[batch, 7]"}
blocks:
  layer:
    inputs: [x]
    graph:
      n1: {op: layer_norm, in: x}
      q: {op: linear, in: n1, units: $width}
      k: {op: linear, in: n1, units: $width}
      v: {op: linear, in: n1, units: $width}
      a: {op: attention, in: {q: q, k: k, v: v}, heads: $heads, causal: true}
      o: {op: linear, in: a, units: $width}
      r: x + o
      n2: {op: layer_norm, in: r}
      up: {op: linear, in: n2, units: "${4 * width}"}
      down: {op: linear, in: gelu(up), units: $width}
      y: r + down
    outputs: [y]
graph:
  token: {op: embedding, in: ids, count: $words, dim: $width, dtype: f64}
  place: {op: weight, type: "f64[length, width]"}
  blocks: {block: layer, in: token + place, repeat: 2}
  end: {op: layer_norm, in: blocks}
  out: {op: linear, in: end, units: $words}
outputs: [out]
train:
  batch: batch
  loss: mean(softmax_cross_entropy(out, label))
  optimizer: {adamw: {lr: 0.01}}
  clip: {norm: 1.0}
"""


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


LSTM = """\
xlac: 1
model: lstm
dims: {batch: {max: 8}}
weights: {init: {seed: 0, scheme: xavier, tensors: {"*.bias": {scheme: normal, std: 0.1}}}}
inputs: {x: "f64[batch, 6, 4]", y: "f64[batch, 6, 3]"}
graph:
  zero: f64(zeros([batch, 5]))
  rnn:
    scan: {x_t: x}
    axis: 1
    carry: {h: {init: zero}, c: {init: zero}}
    body:
      gates: {op: linear, in: [x_t, h], units: 20}
      i, f, g, o: split(gates, parts=4, axis=-1)
      c1: sigmoid(f) * c + sigmoid(i) * tanh(g)
      h1: sigmoid(o) * tanh(c1)
    next: {h: h1, c: c1}
    stack: {y: h1}
  out: {op: linear, in: rnn.y, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean((out - y) ** 2.0)
  optimizer: {rmsprop: {lr: 0.01}}
"""


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


RESIDUAL = """\
xlac: 1
model: residual
dims: {batch: {max: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 3, 8, 8]", y: "i64[batch]"}
blocks:
  part:
    params: {out: null, stride: 1}
    inputs: [x]
    graph:
      c1: {op: conv2d, in: x, filters: $out, kernel: 3, stride: $stride, pad: 1, bias: false}
      n1: {op: batch_norm, in: c1}
      c2: {op: conv2d, in: relu(n1), filters: $out, kernel: 3, pad: 1, bias: false}
      n2: {op: batch_norm, in: c2}
      s: {op: conv2d, in: x, filters: $out, kernel: 1, stride: $stride, bias: false}
      y: relu(n2 + s)
    outputs: [y]
graph:
  a: {block: part, in: x, with: {out: 4}}
  b: {block: part, in: a, with: {out: 6, stride: 2}}
  p: {op: avg_pool2d, in: b, kernel: 2, stride: 2}
  out: {op: linear, in: "flatten(p, axis=1)", units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.05, momentum: 0.9, weight_decay: 0.01}}
"""


def residual(w: Weights, x: Any, y: Any) -> Any:
    for p, stride in (("a", 1), ("b", 2)):
        h = F.conv2d(x, w[f"{p}.c1.weight"], stride=stride, padding=1)
        h = F.relu(F.batch_norm(h, None, None, w[f"{p}.n1.weight"], w[f"{p}.n1.bias"], True))
        h = F.conv2d(h, w[f"{p}.c2.weight"], padding=1)
        h = F.batch_norm(h, None, None, w[f"{p}.n2.weight"], w[f"{p}.n2.bias"], True)
        x = F.relu(h + F.conv2d(x, w[f"{p}.s.weight"], stride=stride))
    return F.cross_entropy(linear(F.avg_pool2d(x, 2).flatten(1), w, "out"), y)


UNET = """\
xlac: 1
model: unet
dims: {batch: {max: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 2, 8, 8]", y: "f64[batch, 1, 8, 8]"}
graph:
  down: {op: conv2d, in: x, filters: 4, kernel: 3, pad: 1}
  d: relu(down)
  small: {op: max_pool2d, in: d, kernel: 2, stride: 2}
  middle: {op: conv2d, in: small, filters: 6, kernel: 3, pad: 1}
  m: silu(middle)
  up: {op: conv_transpose2d, in: m, filters: 4, kernel: 2, stride: 2}
  both: concat(up, d, axis=1)
  out: {op: conv2d, in: both, filters: 1, kernel: 3, pad: 1}
outputs: [out]
train:
  batch: batch
  loss: mean(abs(out - y))
  optimizer: {adam: {lr: 0.01}}
"""


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
    "gpt": (GPT, gpt, ids, lambda p: torch.optim.AdamW(p, lr=0.01)),
    "lstm": (LSTM, lstm, lambda r: {"x": r.normal(size=(4, 6, 4)), "y": r.normal(size=(4, 6, 3))},
             lambda p: torch.optim.RMSprop(p, lr=0.01)),
    "residual": (RESIDUAL, residual, images, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01)),
    "unet": (UNET, unet, lambda r: {"x": r.normal(size=(3, 2, 8, 8)), "y": r.normal(size=(3, 1, 8, 8))},
             lambda p: torch.optim.Adam(p, lr=0.01)),
}  # fmt: skip


@pytest.mark.sampled(4)
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
