"""Trains the weights of specs/digits.yaml on scikit-learn's bundled handwritten digits.

    pip install scikit-learn safetensors
    python specs/training/train_digits.py

Data: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository (1998), CC BY 4.0, as shipped with scikit-learn. A fifth of the images is kept for
testing; they are written beside the weights, so that the demo needs neither this script nor
scikit-learn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SPECS = Path(__file__).resolve().parent.parent


def main() -> None:
    """Trains the network and writes its weights."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    train, test, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=0.2, random_state=0, stratify=digits.target
    )
    net = MLPClassifier(hidden_layer_sizes=(128,), alpha=1e-3, max_iter=300, random_state=0).fit(
        train, train_labels
    )
    (w1, w2), (b1, b2) = net.coefs_, net.intercepts_
    weights = {"h1.weight": w1.T, "h1.bias": b1, "logits.weight": w2.T, "logits.bias": b2}
    save_file(
        {k: np.ascontiguousarray(v, np.float32) for k, v in weights.items()},
        SPECS / "digits.safetensors",
    )
    np.save(SPECS / "data" / "digits_images.npy", test)
    np.save(SPECS / "data" / "digits_labels.npy", test_labels.astype(np.int64))
    print(
        f"{len(train)} images trained on, accuracy on the other {len(test)}: "
        f"{net.score(test, test_labels):.4f}"
    )


if __name__ == "__main__":
    main()
