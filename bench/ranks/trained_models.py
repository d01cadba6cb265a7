"""The models of the comparison: as specs, and the sizes that PyTorch's modules share with them."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, CLASSES, ROWS = 1024, 10, 128
LENGTH, MODEL, HEADS, LAYERS, SEQUENCES = 64, 256, 4, 2, 16

MLP = f"""\
xlac: 1
model: mlp
dims: {{batch: {{max: 4096, opt: {ROWS}}}}}
weights: {{init: {{seed: 0}}}}
inputs: {{x: "f32[batch, 784]", y: "i64[batch]"}}
graph:
  a: {{op: linear, in: x, units: {WIDTH}}}
  b: {{op: linear, in: relu(a), units: {WIDTH}}}
  out: {{op: linear, in: relu(b), units: {CLASSES}}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {{adam: {{lr: 0.001}}}}
"""

TRANSFORMER = f"""\
xlac: 1
model: transformer
dims: {{batch: {{max: 4096, opt: {SEQUENCES}}}}}
weights: {{init: {{seed: 0}}}}
inputs: {{x: "f32[batch, {LENGTH}, {MODEL}]", y: "f32[batch, {LENGTH}, {MODEL}]"}}
blocks:
  layer:
    inputs: [x]
    graph:
      n1: {{op: layer_norm, in: x}}
      q: {{op: linear, in: n1, units: {MODEL}}}
      k: {{op: linear, in: n1, units: {MODEL}}}
      v: {{op: linear, in: n1, units: {MODEL}}}
      a: {{op: attention, in: {{q: q, k: k, v: v}}, heads: {HEADS}, causal: true}}
      o: {{op: linear, in: a, units: {MODEL}}}
      r: x + o
      n2: {{op: layer_norm, in: r}}
      up: {{op: linear, in: n2, units: {4 * MODEL}}}
      down: {{op: linear, in: gelu(up), units: {MODEL}}}
      y: r + down
    outputs: [y]
graph:
  out: {{block: layer, in: x, repeat: {LAYERS}}}
outputs: [out]
train:
  batch: batch
  loss: mean((out - y) * (out - y))
  optimizer: {{adam: {{lr: 0.001}}}}
"""

SPECS = {"mlp": MLP, "transformer": TRANSFORMER}


def batch(name: str) -> dict[str, Any]:
    """The batch of all ranks together."""
    rng = np.random.default_rng(0)
    if name == "mlp":
        x = rng.standard_normal((ROWS, 784), np.float32)
        return {"x": x, "y": rng.integers(0, CLASSES, ROWS)}
    shape = (SEQUENCES, LENGTH, MODEL)
    return {n: rng.standard_normal(shape, np.float32) for n in "xy"}
