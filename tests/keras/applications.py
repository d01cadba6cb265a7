"""Writes the models of keras.applications that have at most 100 M parameters, of the smallest legal
size, and what Keras and TensorFlow Lite give for them: `applications.py FOLDER [NAME…]`; or lists
their names, `applications.py --names`. Run by the environment that has TensorFlow and Keras.

Weights are random, but statistics of batch normalization are those of the images that a model is
given, so that its results depend on the image; the last softmax is left out. Each model is written
as NAME.keras, and by TensorFlow's converter as NAME.float.tflite and NAME.int8.tflite, with inputs
and results beside them (.npz). Results of the int8 model are those of the reference kernels.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf

MOST = 100_000_000  # parameters
IMAGES = 16  # whose statistics batch normalization has; the first two are compared


def made(name: str) -> Any:
    """A model that gives logits."""
    build = getattr(keras.applications, name)
    for size in (32, 64, 71, 75, 96, 224, 331):
        try:
            return build(
                weights=None, input_shape=(size, size, 3), classes=1000, classifier_activation=None
            )
        except ValueError:
            continue
    raise AssertionError(f"{name} takes no size")


def images(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Images of numbers to 255 that differ: coloured areas, and noise."""
    size = shape[0]
    areas = random.random((IMAGES, 4, 4, 3)).repeat(size // 4 + 1, 1).repeat(size // 4 + 1, 2)
    noise = random.random((IMAGES, *shape))
    return (255 * (0.7 * areas[:, :size, :size] + 0.3 * noise)).astype(np.float32)


def filled(model: Any, x: np.ndarray, random: np.random.Generator) -> None:
    """Weights as if the model had learned: no layer's output is constant, and none fades.

    Offsets of batch normalization are about 1, so that rectifiers pass most numbers: where they are
    about 0, fifty random layers amplify a rounding error a thousand times.
    """
    norms = [each for each in layers(model) if "BatchNormalization" in type(each).__name__]
    for weight in model.weights:
        if "seed" in weight.path or weight.dtype != "float32":
            continue
        shape, start = weight.shape, np.asarray(weight)
        if len(shape) < 2:
            # ConvNeXt's scales of residual branches begin near 0
            start = np.maximum(start, 0.5) if weight.path.endswith("gamma") else start
            start = start + 1.0 if norms and weight.path.endswith("beta") else start
            weight.assign(start + 0.1 * random.standard_normal(shape))
        elif not norms:
            weight.assign(start * 2**0.5)  # a rectifier halves the variance
    for layer in layers(model):
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()  # Normalization computes with copies of its weights
    for norm in norms:
        norm.momentum = 0.0
    model(x, training=True)


def layers(model: Any) -> Iterator[Any]:
    """The layers of a model and of those in it."""
    for layer in model.layers:
        yield from layers(layer) if hasattr(layer, "layers") else (layer,)


def converted(model: Any, x: np.ndarray, whole: bool) -> bytes:
    """The model as a .tflite file: `whole` says that it is of int8 throughout."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if whole:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([image[None]] for image in x)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    file: bytes = converter.convert()
    return file


def by_reference(file: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images as the integers that a model takes, and what the reference kernels give."""
    kind = tf.lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = tf.lite.Interpreter(str(file), experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero = taken["quantization"]
    integers = np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8)
    results = []
    for image in integers:
        interpreter.set_tensor(taken["index"], image[None])
        interpreter.invoke()
        results.append(interpreter.get_tensor(given["index"])[0])
    return integers, np.stack(results)


def write(folder: Path, name: str) -> bool:
    """Writes the files of a model; false for one that has too many parameters."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    model = made(name)
    size = f"{model.count_params() / 1e6:.1f} M parameters"
    if model.count_params() > MOST:
        print(f"{name}: {size}", flush=True)
        return False
    random = np.random.default_rng(0)
    x = images(model.input_shape[1:], random)
    filled(model, x, random)
    some = x[:2]
    y = np.asarray(model(some, training=False))
    model.save(folder / f"{name}.keras")
    np.savez(folder / f"{name}.keras.npz", x=some, y=y)
    apart = np.abs(y[0] - y[1]).max() / np.abs(y).max()
    print(f"{name} {model.input_shape} {size}, images differ by {apart:.2f}", flush=True)
    (folder / f"{name}.float.tflite").write_bytes(converted(model, x, False))
    np.savez(folder / f"{name}.float.tflite.npz", x=some, y=y)
    file = folder / f"{name}.int8.tflite"
    file.write_bytes(converted(model, x, True))
    integers, results = by_reference(file, some)
    np.savez(folder / f"{name}.int8.tflite.npz", x=integers, y=results)
    print(f"{name} int8: {len(np.unique(results))} different results", flush=True)
    return True


def main() -> None:
    """Writes the models that are named, or all; the status is 3 if all of them are too large."""
    every = [
        name
        for name in dir(keras.applications)
        if name[0].isupper() and inspect.isfunction(getattr(keras.applications, name))
    ]
    if sys.argv[1] == "--names":
        print("\n".join(every))
        return
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        (folder / f"{name}.int8.tflite.npz").exists() or write(folder, name)
        for name in sys.argv[2:] or every
    ]
    sys.exit(0 if any(written) else 3)


if __name__ == "__main__":
    main()
