"""Writes the models of keras.applications that have at most 100 M parameters, with random weights
and the smallest legal size, and what Keras gives for them: `applications.py FOLDER [NAME…]`. Run by
the environment that has TensorFlow and Keras.
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

MOST = 100_000_000  # parameters


def made(name: str) -> Any:
    """A model with random weights that keep its values at an ordinary size."""
    build = getattr(keras.applications, name)
    for size in (32, 64, 71, 75, 96, 224, 331):
        try:
            return build(weights=None, input_shape=(size, size, 3), classes=1000)
        except ValueError:
            continue
    raise AssertionError(f"{name} takes no size")


def filled(model: Any, random: np.random.Generator) -> None:
    """Statistics and biases as if the model had learned: no layer's output is constant."""
    for weight in model.weights:
        if "seed" in weight.path or weight.dtype != "float32":
            continue
        shape = weight.shape
        if "variance" in weight.path:
            weight.assign(0.5 + random.random(shape))
        elif len(shape) < 2:
            start = np.asarray(weight)
            weight.assign(start + 0.1 * random.standard_normal(shape))


def main() -> None:
    """Writes NAME.keras and NAME.npz."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or [
        name
        for name in dir(keras.applications)
        if name[0].isupper() and inspect.isfunction(getattr(keras.applications, name))
    ]
    for name in names:
        if (folder / f"{name}.npz").exists():
            continue
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        model = made(name)
        if model.count_params() > MOST:
            print(f"{name}: {model.count_params() / 1e6:.0f} M parameters", flush=True)
            continue
        random = np.random.default_rng(0)
        filled(model, random)
        x = random.random((2, *model.input_shape[1:]), dtype=np.float32) * 255
        y = np.asarray(model(x, training=False))
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", x=x, y=y)
        print(name, model.input_shape, f"{model.count_params() / 1e6:.1f} M", flush=True)


if __name__ == "__main__":
    main()
