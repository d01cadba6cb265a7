"""Compares the models that applications.py wrote with what Keras and TensorFlow Lite gave:
`compare_applications.py FOLDER [NAME…]`. Floats are within 1e-4 of the largest result; integers at
most three steps apart, with the same largest. Results for different images must differ, or they
prove nothing.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xlac

LIMIT = 1e-4  # of the largest result
STEPS = 3
INFORMATIVE = 0.05  # least difference between two images, relative to the largest result


def compared(file: Path) -> tuple[str, bool]:
    """How our results compare with those recorded, and whether that is within the limits."""
    with np.load(f"{file}.npz") as recorded:
        x, wanted = recorded["x"], recorded["y"]
    found: Any = xlac.compile(file)(x)
    assert found.shape == wanted.shape and np.isfinite(wanted).all()
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    far, largest = np.abs(ours - theirs).max(), np.abs(theirs).max()
    between = np.abs(theirs[0] - theirs[1]).max() / largest
    text = f"images differ by {between:.2f}"
    if between < INFORMATIVE:
        return f"{text}: no evidence", False
    if wanted.dtype.kind == "f":
        return f"{text}, largest error {far / largest:.1e}", far <= LIMIT * largest
    equal = float((ours == theirs).mean())
    # several results may share the largest value of an integer
    best = all(
        np.intersect1d(np.flatnonzero(a == a.max()), np.flatnonzero(b == b.max())).size
        for a, b in zip(ours, theirs, strict=True)
    )
    top = "same" if best else "ANOTHER"
    return (
        f"{text}, {equal:.2%} equal, at most {far:.0f} steps apart, {top} top-1",
        far <= STEPS and best,
    )


def main() -> None:
    """Fails if a model differs by more."""
    names = sys.argv[2:]
    files = sorted(file.with_suffix("") for file in Path(sys.argv[1]).glob("*.npz"))
    files = [file for file in files if not names or file.name.partition(".")[0] in names]
    assert files, "there are no models"
    wrong = []
    for file in files:
        start = time.monotonic()
        text, right = compared(file)
        print(f"{file.name:32} {text}  {time.monotonic() - start:5.1f} s", flush=True)
        wrong += [] if right else [file.name]
    assert not wrong, f"they differ by more, or prove nothing: {', '.join(wrong)}"


if __name__ == "__main__":
    main()
