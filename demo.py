"""The main job on real input: compiles specs/digits.yaml for this CPU and classifies handwritten
digits.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import xlac

SPECS = Path(__file__).parent / "specs"


def main() -> None:
    """Compiles the digits and prints how many are read rightly, and how fast."""
    images = np.load(SPECS / "data" / "digits_images.npy")
    labels = np.load(SPECS / "data" / "digits_labels.npy")
    start = time.perf_counter()
    model = xlac.compile(SPECS / "digits.yaml", target="cpu", dims={"batch": len(images)})
    print(f"compiled specs/digits.yaml for cpu in {time.perf_counter() - start:.2f} s")

    probabilities = model(image=images)
    right = probabilities.argmax(axis=1) == labels
    print(f"{right.mean():.1%} of {len(images)} test images are classified correctly")

    single = xlac.compile(SPECS / "digits.yaml", target="cpu", dims={"batch": 1})
    for program, batch in ((model, images), (single, images[:1])):
        calls = max(10, 200_000 // len(batch) // 100)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(calls):
                program(batch)
            times.append((time.perf_counter() - start) / calls)
        print(f"{np.median(times) * 1e6:8.2f} us a call for {len(batch)} image(s)")

    data = ("--data specs/data/digits_train.npz", "--validate specs/data/digits_test.npz")
    print("to train the model from random weights, in seconds:")
    print(f"  xlac train specs/digits_train.yaml {' '.join(data)} --epochs 10 --batch 32 -o run")


if __name__ == "__main__":
    main()
