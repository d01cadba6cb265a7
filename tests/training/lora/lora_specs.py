"""A spec with factors of low rank beside weights of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xlac.training.trainer import Trainer

SPEC = """\
xlac: 1
model: adapted
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {ids: "i64[batch, 5]", image: "f64[batch, 2, 6, 6]", y: "i64[batch]"}
graph:
  table: {op: embedding, in: ids, count: 9, dim: 6, dtype: f64}
  query: {op: linear, in: table, units: 7}
  key: {op: linear, in: tanh(query), units: 6, bias: false}
  mix: {op: weight, type: "f64[6, 4]"}
  mixed: tanh(key) @ mix
  conv: {op: conv2d, in: image, filters: 4, kernel: 3, stride: 2, pad: 1}
  parted: {op: conv2d, in: tanh(conv), filters: 4, kernel: 2, groups: 2, bias: false}
  scaled: {op: weight, type: "f64[4, 4]"}
  all: mean(mixed, axis=1) + mean(tanh(parted), axis=[2, 3]) @ tanh(scaled)
  head: {op: linear, in: tanh(all), units: 3}
outputs: [head]
train:
  batch: batch
  loss: mean(cross_entropy(head, y))
  optimizer: {adamw: {lr: 0.02, weight_decay: 0.1}}
  lora:
    "*key.weight": {rank: 3, alpha: 6}
    "*.weight": {rank: 2}
    "mix": {rank: 2, alpha: 8}
    "scaled": {rank: 1}
  groups: {"*lora_B*": {lr: 0.05}}
  wrt: ["head.bias", "*.conv.bias", "conv.bias"]
"""
SPEC = SPEC.replace('"*.conv.bias", ', "")
FACTORS = {
    "table": ("table.lora_embedding_A", "table.lora_embedding_B", 1.0),
    "query": ("query.lora_A.weight", "query.lora_B.weight", 1.0),
    "key": ("key.lora_A.weight", "key.lora_B.weight", 2.0),
    "mix": ("mix.lora_A.weight", "mix.lora_B.weight", 4.0),
    "conv": ("conv.lora_A.weight", "conv.lora_B.weight", 1.0),
    "parted": ("parted.lora_A.weight", "parted.lora_B.weight", 1.0),
    "scaled": ("scaled.lora_A.weight", "scaled.lora_B.weight", 1.0),
    "head": ("head.lora_A.weight", "head.lora_B.weight", 1.0),
}


def made(folder: Path, text: str = SPEC, target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(text)
    return Trainer(file, target=target)


def batch(seed: int = 0, size: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "ids": rng.integers(0, 9, (size, 5)),
        "image": rng.normal(size=(size, 2, 6, 6)),
        "y": rng.integers(0, 3, size),
    }
