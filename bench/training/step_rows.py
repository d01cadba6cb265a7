"""The rows of steps.py: a network, its inputs, and its optimizer as PyTorch names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class StepRow:
    """One model that learns, at one size.

    `inputs` maps a name to its shape and, for whole numbers, to what they stay below (0: floats).
    `kind` says what decides a step's time: "compute" or "overhead" (calls and memory).
    """

    network: str
    kind: str
    inputs: Mapping[str, tuple[tuple[int, ...], int]]
    optimizer: tuple[str, Mapping[str, float]]
    params: Mapping[str, object] = field(default_factory=dict)

    def arrays(self) -> Arrays:
        """The inputs, from a seed: f32, and i32 below their bound."""
        rng = np.random.default_rng(0)
        return {
            name: rng.integers(0, below, shape).astype(np.int32)
            if below
            else rng.standard_normal(shape).astype(np.float32)
            for name, (shape, below) in self.inputs.items()
        }


def images(batch: int, size: int, classes: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shapes of images and labels, each with the number of classes (0: floats)."""
    return {"x": ((batch, 3, size, size), 0), "y": ((batch,), classes)}


def momentum(lr: float, decay: float) -> tuple[str, Mapping[str, float]]:
    """SGD with momentum 0.9: its name in PyTorch, and its options."""
    return "SGD", {"lr": lr, "momentum": 0.9, "weight_decay": decay}


ADAMW = ("AdamW", {"lr": 1e-4, "weight_decay": 0.01})
WIDE = ((4, 128, 768), 0)

ROWS: dict[str, StepRow] = {
    "digits": StepRow(
        "digits",
        "overhead",
        {"x": ((32, 64), 0), "y": ((32,), 10)},
        ("AdamW", {"lr": 1e-3, "weight_decay": 0.01}),
    ),
    "mlp": StepRow(
        "mlp", "overhead", {"x": ((128, 784), 0), "y": ((128,), 10)}, momentum(0.05, 0.0)
    ),
    "lstm": StepRow(
        "lstm", "overhead", {"x": ((16, 64, 64), 0), "y": ((16, 64, 32), 0)}, ("Adam", {"lr": 1e-3})
    ),
    "dlrm": StepRow(
        "dlrm",
        "overhead",
        {"dense": ((128, 13), 0), "ids": ((128, 8), 80000), "y": ((128, 1), 0)},
        ("SGD", {"lr": 0.1}),
    ),
    "resnet18_cifar": StepRow("resnet18_cifar", "compute", images(32, 32, 10), momentum(0.1, 5e-4)),
    "resnet50": StepRow(
        "resnet50", "compute", images(1, 224, 1000), momentum(0.1, 1e-4), {"batch": 1}
    ),
    "resnet50_b8": StepRow(
        "resnet50", "compute", images(8, 224, 1000), momentum(0.1, 1e-4), {"batch": 8}
    ),
    "mobilenet_v2": StepRow("mobilenet_v2", "compute", images(4, 224, 1000), momentum(0.05, 4e-5)),
    "bert_layer": StepRow("bert_layer", "compute", {"x": WIDE, "y": WIDE}, ADAMW),
    "gpt_small": StepRow(
        "gpt_small",
        "compute",
        {"ids": ((4, 256), 50257), "y": ((4, 256), 50257)},
        ("AdamW", {"lr": 3e-4, "weight_decay": 0.01}),
    ),
    "unet": StepRow(
        "unet",
        "compute",
        {"x": ((4, 3, 64, 64), 0), "y": ((4, 1, 64, 64), 0)},
        ("Adam", {"lr": 1e-3}),
    ),
}
