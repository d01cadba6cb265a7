"""Models made by TensorFlow's converter, beside TensorFlow Lite's reference kernels: floats, and
int8 throughout. Needs TensorFlow: `make test-tf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf: Any = pytest.importorskip("tensorflow")

import tflite_functions  # noqa: F401 - lists its functions
from tflite_models import MODELS

import xlac

INT8 = (
    "keyword_spotting transformer_encoder autoencoder residual_blocks unet temporal_convolutions "
    "inverted_residual vision_transformer signal_autoencoder mlp_mixer separable_network"
).split()
FAR = 1e-4  # of the largest result of a float model
STEPS = 3  # between integers


def drawn(shapes: list[tuple[int, ...]], seed: int) -> list[np.ndarray]:
    """Numbers from a seed."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def converted(name: str, int8: bool) -> tuple[bytes, list[tuple[int, ...]]]:
    """The file of a model, and the shapes of its inputs."""
    tf.keras.utils.set_random_seed(0)
    made, shapes = MODELS[name]()
    if isinstance(made, tf.keras.Model):
        settle(made)
        converter = tf.lite.TFLiteConverter.from_keras_model(made)
    else:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([made])
    if int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (drawn(shapes, n) for n in range(16))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert(), shapes


def settle(model: Any) -> None:
    """Biases and statistics that are not 0 and 1."""
    random = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) == 1 and weight.dtype == "float32":
            low = 0.0 if "variance" in weight.path else -0.3
            weight.assign(np.asarray(weight) + random.uniform(low, 0.3, weight.shape))


def by_reference(data: bytes, inputs: list[np.ndarray]) -> tuple[list[Any], list[Any]]:
    """The inputs as the model takes them, in its order, and what the reference kernels give."""
    kind = tf.lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = tf.lite.Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    by_shape = {x.shape: x for x in inputs}
    given = []
    for info in interpreter.get_input_details():
        value = by_shape[tuple(info["shape"])]
        scale, zero = info["quantization"]
        if scale:
            value = np.clip(np.round(value / scale) + zero, -128, 127).astype(info["dtype"])
        interpreter.set_tensor(info["index"], value)
        given.append(value)
    assert len(given) == len(by_shape) == len(inputs)
    interpreter.invoke()
    return given, [interpreter.get_tensor(i["index"]) for i in interpreter.get_output_details()]


def cases() -> Iterator[tuple[str, bool]]:
    """Every model in float, some in int8."""
    for name in MODELS:
        yield name, False
        if name in INT8:
            yield name, True


@pytest.mark.parametrize(("name", "int8"), cases())
def test_a_converted_model_agrees(name: str, int8: bool, tmp_path: Path) -> None:
    data, shapes = converted(name, int8)
    file = tmp_path / f"{name}.tflite"
    file.write_bytes(data)
    program: Any = xlac.compile(file)
    for seed in (1, 2):
        given, wanted = by_reference(data, drawn(shapes, seed))
        made = program(*given)
        found = list(made.values()) if isinstance(made, dict) else [made]
        for ours, theirs in zip(found, wanted, strict=True):
            compare(ours, theirs)


def compare(found: np.ndarray, wanted: np.ndarray) -> None:
    """Fails where a result is not close enough."""
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    assert found.dtype == wanted.dtype and ours.shape == theirs.shape
    far = np.abs(ours - theirs).max()
    if wanted.dtype.kind == "f":
        assert far <= FAR * np.abs(theirs).max() and np.abs(theirs).max() > 0
    elif wanted.dtype == np.int8:
        assert far <= STEPS and np.ptp(theirs) > STEPS
        assert theirs.reshape(-1)[ours.argmax()] == theirs.max()
    else:
        np.testing.assert_array_equal(found, wanted)
