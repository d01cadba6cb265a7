"""Makes expected.npz: models that Keras wrote, taken apart, and what Keras gives for them. Needs
TensorFlow and Keras, in an environment of their own: `make test-keras`.

    python tests/keras/record.py            writes the file
    python tests/keras/record.py --new      adds the cases that it lacks
    python tests/keras/record.py --check    fails where Keras gives something else than it says
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import h5py
import keras
import numpy as np
from keras.src import api_export
from keras_cases import cases

EXPECTED = Path(__file__).parent / "expected.npz"
WHOLE = ("nested", "Bidirectional", "MultiHeadAttention", "RNN_1", "BatchNormalization", "shared")
"""Models whose files are kept as Keras wrote them, in both formats."""


def taken_apart(model: Any, folder: Path) -> dict[str, np.ndarray]:
    """The configuration, the weights and the assets of a .keras file."""
    path = folder / "model.keras"
    model.save(path)
    with zipfile.ZipFile(path) as held:
        found = {
            name: np.frombuffer(held.read(name), np.uint8)
            for name in held.namelist()
            if name.startswith("assets/")
        }
        found["config"] = np.frombuffer(held.read("config.json"), np.uint8)
        with h5py.File(io.BytesIO(held.read("model.weights.h5"))) as file:

            def add(name: str, at: Any) -> None:
                if isinstance(at, h5py.Dataset):
                    found[f"h5/{name}"] = at[()]

            file.visititems(add)
    return found


def public() -> list[str]:
    """The names under which files call the classes of keras.layers."""
    kinds = (value for value in vars(keras.layers).values() if isinstance(value, type))
    return sorted(
        {
            api_export.get_name_from_symbol(kind).rpartition(".")[2]
            for kind in kinds
            if issubclass(kind, keras.layers.Layer)
        }
    )


def main() -> None:
    """Writes the file, or checks it and the list of public layers."""
    known_layers = (Path(__file__).parent / "public_layers.txt").read_text().split()
    assert public() == known_layers, "Keras has other layers: renew public_layers.txt"
    found: dict[str, np.ndarray] = {}
    if "--new" in sys.argv:
        with np.load(EXPECTED) as held:
            found = {name: held[name] for name in held.files}
    recorded = {name.partition("/")[0] for name in found}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case, (model, inputs) in cases(without=recorded).items():
            parts = taken_apart(model, folder)
            loaded = keras.models.load_model(folder / "model.keras")
            parts |= {f"in/{n}": array for n, array in enumerate(inputs)}
            for side in ("out", "again") if case.startswith("stateful") else ("out",):
                results = loaded(inputs, training=False)
                listed = results if isinstance(results, list | tuple) else [results]
                parts |= {f"{side}/{n}": np.asarray(array) for n, array in enumerate(listed)}
            found |= {f"{case}/{key}": array for key, array in parts.items()}
            if case in WHOLE:
                for suffix in ("keras", "h5"):
                    model.save(folder / f"whole.{suffix}")
                    data = (folder / f"whole.{suffix}").read_bytes()
                    found[f"whole/{case}.{suffix}"] = np.frombuffer(data, np.uint8)
    if "--check" not in sys.argv:
        np.savez_compressed(EXPECTED, **found)
        return
    known = np.load(EXPECTED)
    cases_of = {key.partition("/")[0] for key in known.files}
    assert cases_of == {key.partition("/")[0] for key in found}, "cases changed: record them"
    for key in known.files:
        if "/out/" in key or "/again/" in key:
            np.testing.assert_allclose(found[key], known[key], rtol=1e-5, atol=1e-5, err_msg=key)
    print(f"{len(cases_of)} models give what is recorded")


if __name__ == "__main__":
    main()
