"""Compares the models that applications.py wrote, loaded by Keras and compiled as they live there,
with what Keras gave: `live_applications.py FOLDER [NAME…]`. Run by the environment that has
TensorFlow and Keras, with xlac installed. Results are within 1e-4 of the largest.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

import xlac

LIMIT = 1e-4  # of the largest result


def error(file: Path) -> float:
    """The largest error of a model's results, relative to the largest of them."""
    keras.backend.clear_session()
    live = keras.models.load_model(file)
    with np.load(f"{file}.npz") as recorded:
        x, wanted = recorded["x"], recorded["y"]
    found: Any = xlac.compile(lambda x: live(x, training=False), (x,))(x)
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


def main() -> None:
    """Fails if a model differs by more."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    files = sorted(folder.glob("*.keras"))
    files = [file for file in files if not names or file.stem in names]
    assert files, "there are no models"
    wrong = []
    for file in files:
        start = time.monotonic()
        far = error(file)
        took = time.monotonic() - start
        print(f"{file.stem:24} live, largest error {far:.1e}  {took:5.1f} s", flush=True)
        wrong += [] if far <= LIMIT else [file.stem]
    assert not wrong, f"they differ by more: {', '.join(wrong)}"


if __name__ == "__main__":
    main()
