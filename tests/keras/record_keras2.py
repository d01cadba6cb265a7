"""Makes keras2.npz: files as Keras 2 wrote them, and what it predicts. tf_keras is Keras 2 for
today's TensorFlow, and writes the same files.

    python tests/keras/record_keras2.py            writes the file
    python tests/keras/record_keras2.py --check    fails where Keras 2 gives something else
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
import tf_keras as keras

RECORDED = Path(__file__).parent / "keras2.npz"
L = keras.layers
MODELS: dict[str, tuple[tuple[int, ...], str, Callable[[Any], Any]]] = {}
SERIES, IMAGE = (6, 4), (8, 8, 3)


def one(name: str, shape: tuple[int, ...], made: Callable[[Any], Any], dtype: str) -> None:
    """Adds a case: a model of one input."""
    MODELS[name] = shape, dtype, made


def chain(*layers: Any) -> Callable[[Any], Any]:
    """Layers one after another."""

    def called(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return called


def apart(*layers: Any) -> Callable[[Any], Any]:
    """Layers each called with the input."""
    return lambda x: [layer(x) for layer in layers]


def layers() -> None:
    """Layers of all kinds."""
    one("dense", (4,), chain(L.Dense(5, "swish"), L.BatchNormalization(), L.Dense(3)), "float32")
    one(
        "images",
        IMAGE,
        chain(
            L.Rescaling(0.5, -1),
            L.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 2.0, 4.0]),
            L.RandomFlip(),
            L.Resizing(9, 7),
            L.SeparableConv2D(4, 3, padding="same"),
            L.DepthwiseConv2D(3, depth_multiplier=2),
            L.Conv2DTranspose(3, 3, strides=2, padding="same"),
            L.GlobalAveragePooling2D(),
        ),
        "float32",
    )
    one(
        "recurrent",
        (6,),
        chain(
            L.Embedding(7, 4, mask_zero=True),
            L.LSTM(4, return_sequences=True),
            L.Bidirectional(L.GRU(3)),
        ),
        "int32",
    )
    one(
        "hard_sigmoid",
        SERIES,
        apart(
            L.LSTM(3, recurrent_activation="hard_sigmoid"),
            L.Activation("hard_sigmoid"),
            L.GRU(3, reset_after=False),
            L.RNN([L.LSTMCell(3, recurrent_activation="hard_sigmoid"), L.GRUCell(2)]),
        ),
        "float32",
    )
    changed()


def changed() -> None:
    """Layers that Keras 3 has changed, or has no more."""
    one(
        "attention",
        SERIES,
        lambda x: L.LayerNormalization()(
            L.MultiHeadAttention(2, 3, value_dim=5)(x, L.Dense(4)(x), use_causal_mask=True)
        ),
        "float32",
    )
    one(
        "activations",
        (9,),
        apart(
            *(L.LeakyReLU(), L.LeakyReLU(alpha=0.1), L.ELU(), L.ReLU(6.0, 0.1, 0.2), L.PReLU()),
            *(L.ThresholdedReLU(0.5), L.Softmax()),
            *map(L.Activation, "selu gelu mish softsign exponential leaky_relu".split()),
        ),
        "float32",
    )
    one(
        "local",
        SERIES,
        apart(
            L.LocallyConnected1D(3, 2, strides=2, activation="relu"),
            chain(L.Reshape((4, 3, 2)), L.LocallyConnected2D(3, (3, 2), use_bias=False)),
        ),
        "float32",
    )
    one("categories", (4,), apart(L.CategoryEncoding(7), L.Embedding(7, 3)), "int32")


def models() -> None:
    """Models inside others, whose calls are counted otherwise, and functions of TensorFlow."""
    inner = keras.Sequential([L.Dense(3), L.Dense(4, "relu")], name="inner")
    one("shared", (4,), lambda x: inner(inner(x)), "float32")
    x = keras.Input((4,))
    twin = keras.Model(x, [L.Dense(4)(x), L.Dense(3)(x)], name="twin")
    one("shared_twins", (4,), lambda x: [*twin(twin(x)[0]), L.Dense(2)(twin(x)[1])], "float32")
    one(
        "functions",
        SERIES,
        lambda x: [
            tf.nn.relu(x) * 2.0 + 1.0 - x / 3.0,
            *(x[:, 0], x[:, 1:3, None], x[..., -1], 1.0 - x, 2.0 / (x * x + 1.0), -x, x**2),
            *(f(x, axis=-1, keepdims=True) for f in (tf.reduce_mean, tf.reduce_max)),
            *(f(x, 1) for f in (tf.reduce_sum, tf.reduce_min, tf.math.reduce_std)),
            *(f(x) for f in (tf.exp, tf.sigmoid, tf.tanh, tf.nn.softmax, tf.nn.gelu, tf.nn.silu)),
            *(f(x) for f in (tf.abs, tf.square, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu)),
            *(tf.sqrt(tf.abs(x)), tf.math.log1p(tf.abs(x)), tf.math.l2_normalize(x, -1)),
            *(tf.maximum(x, 0.3), tf.minimum(0.1, x), tf.clip_by_value(x, -0.5, 0.5)),
            tf.where(x > 0, x, 0.1 * x),
            tf.cast(x > 0, tf.float32),
        ],
        "float32",
    )
    one("each", SERIES, each, "float32")
    one(
        "arranging",
        SERIES,
        lambda x: [
            *(tf.concat([x, x], axis=-1), tf.stack([x, x], axis=1), tf.reshape(x, (-1, 24))),
            *(tf.transpose(x, [0, 2, 1]), tf.squeeze(x[:, :1], 1), tf.expand_dims(x, -1)),
            *(tf.tile(x, [1, 2, 1]), *tf.split(x, [1, 3], axis=-1), tf.split(x, 2, axis=1)[1]),
            *(tf.pad(x, [[0, 0], [1, 2], [0, 0]]), tf.gather(x, [0, 2], axis=1)),
            *(tf.one_hot(tf.argmax(x, -1), 4), tf.matmul(x, x, transpose_b=True)),
            *tf.unstack(x, axis=1)[:2],
            tf.image.resize(x[..., None], (3, 8)),
            tf.image.resize(x[..., None], (3, 8), method="nearest"),
            tf.add_n([x, x, x]),
        ],
        "float32",
    )


def each(x: Any) -> list[Any]:
    """Functions of one tensor, of two, of truth values, and along axes."""
    alone = (
        "negative sqrt rsqrt expm1 log sin cos tan asin acos atan sinh cosh asinh acosh atanh "
        "floor ceil sign erf reciprocal is_nan is_inf is_finite softplus"
    )
    pairs = (
        "add subtract multiply pow maximum minimum floormod floordiv atan2 squared_difference "
        "greater greater_equal less less_equal equal not_equal divide"
    )
    along = (
        "reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_variance reduce_std "
        "reduce_logsumexp argmax argmin"
    )
    y, over, under = x[:, ::-1], x > 0.3, x < 0.8
    nonlinear = "relu relu6 selu elu softplus softsign log_softmax softmax silu gelu leaky_relu"
    return [
        *(getattr(tf.math, name)(x) for name in alone.split()),
        *(getattr(tf.math, name)(x, y) for name in pairs.split()),
        *(getattr(tf.nn, name)(x) for name in nonlinear.split()),
        *(getattr(tf.math, name)(x, axis=1) for name in along.split()),
        *(getattr(tf.math, f"reduce_{name}")(over, axis=-1) for name in ("all", "any")),
        *(getattr(tf.math, f"logical_{name}")(over, under) for name in ("and", "or")),
        *(tf.math.logical_not(over), over & under, over | under, y @ x[:, :4]),
        *(tf.identity(x), tf.zeros_like(x), tf.ones_like(x), tf.nn.log_softmax(x, axis=1)),
        *(tf.nn.gelu(x, approximate=True), tf.nn.leaky_relu(x, 0.3), tf.nn.silu(x, 0.5)),
    ]


def recorded(name: str, folder: Path, source: np.random.Generator) -> dict[str, np.ndarray]:
    """The files of a model with weights by chance, its input, and its predictions."""
    shape, dtype, made = MODELS[name]
    keras.backend.clear_session()
    x = keras.Input(shape, name="x", dtype=dtype)
    model = keras.Model(x, made(x))
    for weight in model.weights:
        drawn = source.standard_normal(weight.shape) * 0.5
        if weight.dtype == tf.float32:
            weight.assign(np.abs(drawn) + 0.5 if "variance" in weight.name else drawn)
    given: Any = source.standard_normal((2, *shape)).astype(np.float32)
    if dtype != "float32":
        given = source.integers(0, 7, (2, *shape)).astype(dtype)
    results = model.predict(given, verbose=0)
    listed: Sequence[Any] = results if isinstance(results, list) else [results]
    parts = {"in": given} | {f"out/{n}": array for n, array in enumerate(listed)}
    for suffix in ("h5", "keras"):
        if suffix == "keras" and name in ("functions", "arranging", "each"):
            continue  # Keras 2 fails to write some of their arguments
        path = folder / f"model.{suffix}"
        model.save(path)
        parts[suffix] = np.frombuffer(path.read_bytes(), np.uint8)
    return {f"{name}/{key}": array for key, array in parts.items()}


def main() -> None:
    """Writes the file, or checks it."""
    layers()
    models()
    source = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as name:
        for case in MODELS:
            found |= recorded(case, Path(name), source)
    if "--check" not in sys.argv:
        np.savez_compressed(RECORDED, **found)
        return
    known = np.load(RECORDED)
    assert set(known.files) == set(found), "cases changed: record them"
    for key in known.files:
        if "/out/" in key:
            np.testing.assert_allclose(found[key], known[key], rtol=1e-5, atol=1e-5, err_msg=key)
    print(f"{len(MODELS)} models of Keras 2 give what is recorded")


if __name__ == "__main__":
    main()
