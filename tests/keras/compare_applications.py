"""Compares the models that applications.py wrote with what Keras gave: within 1e-4 of the largest
result. `compare_applications.py FOLDER`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xlac

LIMIT = 1e-4


def apart(file: Path) -> float:
    """How far our results are from Keras's, relative to the largest; and that they differ."""
    with np.load(file.with_suffix(".npz")) as recorded:
        x, wanted = recorded["x"], recorded["y"]
    found: Any = xlac.compile(file, target="cpu")(x)
    assert found.shape == wanted.shape and np.isfinite(wanted).all()
    assert np.ptp(wanted) > 1e-6, "every result is the same: no evidence"
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def main() -> None:
    """Fails if a model differs by more."""
    files = sorted(Path(sys.argv[1]).glob("*.keras"))
    assert files, "there are no models"
    wrong = []
    for file in files:
        start = time.monotonic()
        far = apart(file)
        print(f"{file.stem:22} {far:.1e}  {time.monotonic() - start:5.1f} s", flush=True)
        wrong += [file.stem] if far > LIMIT else []
    assert not wrong, f"they differ by more than {LIMIT}: {', '.join(wrong)}"


if __name__ == "__main__":
    main()
