"""Writes the images that specs/digits.yaml is trained on and tested with: data/digits_train.npz
and data/digits_test.npz, each with `image` f32[n, 64] in 0..1 and `label` i32[n].

    pip install scikit-learn
    python specs/training/split_digits.py

Data: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository (1998), CC BY 4.0, as shipped with scikit-learn. The 360 test images are those of
data/digits_images.npy, which train_digits.py keeps from the weights that are shipped.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DATA = Path(__file__).resolve().parent.parent / "data"


def main() -> None:
    """Writes the two halves of the images, and checks those that are stored already."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    train, test, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=0.2, random_state=0, stratify=digits.target
    )
    assert np.array_equal(test, np.load(DATA / "digits_images.npy"))
    assert np.array_equal(test_labels, np.load(DATA / "digits_labels.npy"))
    write(DATA / "digits_train.npz", image=train, label=train_labels.astype(np.int32))
    write(DATA / "digits_test.npz", image=test, label=test_labels.astype(np.int32))
    print(f"{len(train)} images to train on, {len(test)} to test with")


def write(path: Path, **arrays: np.ndarray) -> None:
    """A compressed .npz whose bytes do not depend on the day that it is written."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")  # of 1980
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


if __name__ == "__main__":
    main()
