"""Models of Keras, one for each layer and its forms: `cases()` builds them, with Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import layers as L
from keras import ops

Shape = tuple[int | None, ...]
Made = Callable[..., Any]
MODELS: dict[str, tuple[tuple[Shape, ...], Made, dict[str, str]]] = {}
"""By name: the shapes of the inputs without the batch, what is made of them, their types."""


def case(name: str, shapes: Sequence[Shape], made: Made, **dtypes: str) -> None:
    """Adds a case of several inputs."""
    assert name not in MODELS, name
    MODELS[name] = (tuple(shapes), made, dtypes)


def one(name: str, shape: Shape, *made: Made) -> None:
    """Adds cases of one input: NAME, NAME_1, …"""
    for number, layer in enumerate(made):
        case(f"{name}_{number}" if number else name, [shape], layer)


IMAGE, SERIES, SOLID = (7, 6, 4), (5, 4), (4, 5, 3, 2)


def core() -> None:
    """Dense layers and what wraps others."""
    one("Dense", (4,), L.Dense(3), L.Dense(3, use_bias=False, activation="relu"))
    one("Dense_series", SERIES, L.Dense(3, activation="softmax"))
    one(
        "EinsumDense",
        SERIES,
        L.EinsumDense("abc,cde->abde", (None, 3, 2), bias_axes="de"),
        L.EinsumDense("...x,xy->...y", 3, bias_axes="y", activation="tanh"),
        L.EinsumDense("abc,cde->abde", (None, 3, 2), bias_axes="d"),
        L.EinsumDense("abc,bcd->ad", 3),
    )
    case("Embedding", [(5,)], lambda x: L.Embedding(7, 3)(x), x0="int32")
    one("Identity", (4,), L.Identity())
    one("TimeDistributed", SERIES, L.TimeDistributed(L.Dense(3)))
    one("TimeDistributed_conv", (3, 6, 6, 2), L.TimeDistributed(L.Conv2D(3, 3)))
    one("SpectralNormalization", (6, 6, 3), L.SpectralNormalization(L.Conv2D(3, 3)))


def activations() -> None:
    """Activations by name, and as layers."""
    for name in (
        "relu", "leaky_relu", "relu6", "softmax", "celu", "elu", "selu", "softplus", "softsign",
        "squareplus", "soft_shrink", "sparse_plus", "silu", "gelu", "tanh", "tanh_shrink",
        "sigmoid", "sparse_sigmoid", "exponential", "hard_sigmoid", "hard_silu", "hard_tanh",
        "hard_shrink", "linear", "mish", "log_softmax", "log_sigmoid",
    ):  # fmt: skip
        one(f"Activation_{name}", (9,), L.Activation(name))
    one(
        "ReLU",
        (9,),
        L.ReLU(),
        L.ReLU(max_value=6),
        L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2),
    )
    one("LeakyReLU", (9,), L.LeakyReLU(), L.LeakyReLU(negative_slope=0.1))
    one("ELU", (9,), L.ELU(), L.ELU(alpha=0.5))
    one("PReLU", IMAGE, L.PReLU(), L.PReLU(shared_axes=[1, 2]))
    one("Softmax", SERIES, L.Softmax(), L.Softmax(axis=1))
    one("Activation_layer", (9,), L.Dense(3, activation=L.LeakyReLU(0.3)))


def convolutions() -> None:
    """Convolutions in one, two and three dimensions."""
    for rank, shape in ((1, SERIES), (2, IMAGE), (3, SOLID)):
        conv, back = getattr(L, f"Conv{rank}D"), getattr(L, f"Conv{rank}DTranspose")
        one(
            f"Conv{rank}D",
            shape,
            conv(3, 2),
            conv(3, 3, strides=2, padding="same", activation="relu"),
            conv(4, 2, dilation_rate=2, padding="same", use_bias=False),
            conv(4, 2, groups=2),
        )
        one(
            f"Conv{rank}DTranspose",
            shape,
            back(3, 3, strides=2, padding="same"),
            back(3, 3, strides=2),
            back(3, 2, strides=3, padding="same", use_bias=False),
            back(3, 2, strides=3),
            back(3, 3, strides=2, padding="same", output_padding=1),
        )
    for rank, shape in ((1, SERIES), (2, IMAGE)):
        for kind in ("DepthwiseConv", "SeparableConv"):
            made = getattr(L, f"{kind}{rank}D")
            first = (3, 3) if kind == "SeparableConv" else (3,)
            one(
                f"{kind}{rank}D",
                shape,
                made(*first),
                made(*first, strides=2, padding="same", depth_multiplier=2),
                made(*first, use_bias=False, activation="relu"),
            )
    one("Conv1D_causal", SERIES, L.Conv1D(3, 3, padding="causal", dilation_rate=2))


def pools() -> None:
    """Pooling."""
    for rank, shape in ((1, SERIES), (2, IMAGE), (3, SOLID)):
        for kind in ("Max", "Average"):
            pool = getattr(L, f"{kind}Pooling{rank}D")
            one(
                f"{kind}Pooling{rank}D",
                shape,
                pool(2),
                pool(3, strides=2, padding="same"),
                pool(2, strides=1, padding="same"),
            )
            every = getattr(L, f"Global{kind}Pooling{rank}D")
            one(f"Global{kind}Pooling{rank}D", shape, every(), every(keepdims=True))
    one("AdaptiveAveragePooling1D", (6, 4), L.AdaptiveAveragePooling1D(3))
    one("AdaptiveAveragePooling2D", (6, 4, 3), L.AdaptiveAveragePooling2D((3, 2)))


def normalizations() -> None:
    """Normalization."""
    one(
        "BatchNormalization",
        IMAGE,
        L.BatchNormalization(),
        L.BatchNormalization(scale=False, epsilon=0.01),
        L.BatchNormalization(center=False),
        L.BatchNormalization(axis=1),
    )
    one(
        "LayerNormalization",
        IMAGE,
        L.LayerNormalization(),
        L.LayerNormalization(axis=[2, 3], center=False),
        L.LayerNormalization(scale=False),
    )
    one("GroupNormalization", IMAGE, L.GroupNormalization(2), L.GroupNormalization(-1, axis=-1))
    one("RMSNormalization", SERIES, L.RMSNormalization())
    one("UnitNormalization", SERIES, L.UnitNormalization(), L.UnitNormalization(axis=1))


def recurrents() -> None:
    """Recurrent layers, and those around them."""
    for name in ("SimpleRNN", "LSTM", "GRU"):
        kind = getattr(L, name)
        one(
            name,
            SERIES,
            kind(3),
            kind(3, return_sequences=True, use_bias=False),
            kind(3, go_backwards=True, return_sequences=True),
            kind(3, return_state=True, activation="relu"),
        )
    one(
        "GRU_before",
        SERIES,
        L.GRU(3, reset_after=False),
        L.GRU(3, reset_after=True, use_bias=False),
    )
    case("LSTM_given", [SERIES, (3,), (3,)], lambda x, h, c: L.LSTM(3)(x, initial_state=[h, c]))
    one(
        "Bidirectional",
        SERIES,
        L.Bidirectional(L.LSTM(3, return_sequences=True)),
        L.Bidirectional(L.GRU(3), merge_mode="sum"),
        L.Bidirectional(L.SimpleRNN(3, return_sequences=True), merge_mode="mul"),
        L.Bidirectional(L.LSTM(3), merge_mode="ave"),
    )
    one(
        "RNN",
        SERIES,
        L.RNN(L.LSTMCell(3)),
        L.RNN([L.GRUCell(3), L.LSTMCell(2)], return_sequences=True),
        L.RNN([L.LSTMCell(3), L.LSTMCell(2)]),
    )


def attentions() -> None:
    """Attention."""
    pair = [SERIES, (3, 4)]
    case("MultiHeadAttention", pair, lambda x, y: L.MultiHeadAttention(2, 3)(x, y))
    case(
        "MultiHeadAttention_1",
        [SERIES, (3, 6), (3, 4)],
        lambda q, v, k: L.MultiHeadAttention(2, 3, value_dim=5, output_shape=7)(q, v, k),
    )
    case(
        "MultiHeadAttention_causal",
        [SERIES],
        lambda x: L.MultiHeadAttention(2, 3, use_bias=False)(x, x, use_causal_mask=True),
    )
    case(
        "MultiHeadAttention_mask",
        [SERIES, (5, 5)],
        lambda x, m: L.MultiHeadAttention(2, 3)(x, x, attention_mask=m),
        x1="bool",
    )
    case("GroupQueryAttention", [SERIES], lambda x: L.GroupQueryAttention(3, 4, 2)(x, x))
    case("Attention", pair, lambda q, v: L.Attention()([q, v]))
    case("Attention_scale", pair, lambda q, v: L.Attention(use_scale=True)([q, v]))
    case("Attention_concat", pair, lambda q, v: L.Attention(score_mode="concat")([q, v]))
    case("Attention_causal", [SERIES], lambda q: L.Attention()([q, q], use_causal_mask=True))
    case("AdditiveAttention", pair, lambda q, v: L.AdditiveAttention()([q, v]))


def shapes() -> None:
    """Other shapes, borders, joins."""
    one("Flatten", IMAGE, L.Flatten())
    one("Reshape", IMAGE, L.Reshape((6, 28)), L.Reshape((-1, 4)))
    one("Permute", IMAGE, L.Permute((3, 1, 2)))
    one("RepeatVector", (4,), L.RepeatVector(3))
    for rank, shape in ((1, SERIES), (2, IMAGE), (3, SOLID)):
        pairs = [(1, 2)] * rank if rank > 1 else (1, 2)
        one(f"ZeroPadding{rank}D", shape, getattr(L, f"ZeroPadding{rank}D")(pairs))
        one(f"Cropping{rank}D", (7,) * rank + (2,), getattr(L, f"Cropping{rank}D")(pairs))
        one(f"UpSampling{rank}D", shape, getattr(L, f"UpSampling{rank}D")(3))
    one("UpSampling2D_bilinear", IMAGE, L.UpSampling2D((2, 3), interpolation="bilinear"))
    two = [(5, 4), (5, 4)]
    for name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Subtract"):
        case(name, two, lambda x, y, name=name: getattr(L, name)()([x, y]))
    case("Concatenate_1", [(5, 4), (3, 4)], lambda x, y: L.Concatenate(axis=1)([x, y]))
    case("Dot", [(5, 4), (3, 4)], lambda x, y: L.Dot(axes=2)([x, y]))
    case("Dot_1", [(4,), (4,)], lambda x, y: L.Dot(axes=-1, normalize=True)([x, y]))


def preprocessing() -> None:
    """Preprocessing, and what does nothing outside training."""
    one("Rescaling", IMAGE, L.Rescaling(0.5, 1.0), L.Rescaling([0.5, 1.0, 2.0, 3.0]))
    one(
        "Normalization",
        IMAGE,
        L.Normalization(),
        L.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 4.0, 9.0, 2.0]),
        L.Normalization(mean=1.0, variance=4.0, invert=True),
    )
    one("Resizing", IMAGE, L.Resizing(5, 9), L.Resizing(3, 13, interpolation="nearest"))
    one("CenterCrop", IMAGE, L.CenterCrop(3, 4))
    one("Discretization", (4,), L.Discretization(bin_boundaries=[-1.0, 0.0, 0.5]))
    for layer in (
        L.Dropout(0.5), L.GaussianNoise(0.5), L.GaussianDropout(0.5), L.AlphaDropout(0.5),
        L.ActivityRegularization(0.1), L.SpatialDropout2D(0.5), L.RandomFlip(),
        L.RandomRotation(0.2),
        L.RandomZoom(0.2), L.RandomTranslation(0.1, 0.1), L.RandomContrast(0.2),
    ):  # fmt: skip
        one(type(layer).__name__, IMAGE, layer)


def functions() -> None:
    """Functions of keras.ops on tensors."""
    one("ops_numbers", SERIES, lambda x: (x * 2.0 + 1.0 - x / 3.0) ** 2.0 - (-x))
    one("ops_compare", SERIES, lambda x: ops.where(x > 0.2, x, ops.minimum(x, -0.5)))
    one(
        "ops_reduce",
        SERIES,
        lambda x: [
            f(x, axis=1, keepdims=True)
            for f in (ops.sum, ops.mean, ops.max, ops.min, ops.var, ops.std, ops.logsumexp)
        ],
    )
    one(
        "ops_shape",
        SERIES,
        lambda x: ops.concatenate(
            [ops.transpose(x, (0, 2, 1)), ops.reshape(x, (-1, 4, 5))], axis=-1
        ),
    )
    one("ops_index", SERIES, lambda x: [x[:, 1:3], x[..., None, 0], x[:, ::2, -1]])
    one("ops_split", (6, 4), lambda x: [*ops.split(x, 3, axis=1), *ops.split(x, [1, 4], axis=1)])
    one("ops_more", SERIES, lambda x: ops.squeeze(ops.expand_dims(ops.clip(x, -0.5, 0.5), 1), 1))
    one("ops_activations", SERIES, lambda x: ops.gelu(ops.relu(x)) + ops.silu(x) + ops.softmax(x))
    one("ops_einsum", SERIES, lambda x: ops.einsum("abc,adc->abd", x, x))
    one("ops_stack", SERIES, lambda x: ops.stack([x, ops.flip(x, axis=1)], axis=2))
    one("ops_argmax", SERIES, lambda x: ops.argmax(x, axis=-1))


def models() -> None:
    """Models of several layers: shared ones, models inside models, several outputs."""
    shared = L.Dense(4, activation="tanh")
    one("shared", (4,), lambda x: shared(shared(x)) + x)
    inner = keras.Sequential([L.Dense(3), L.Dropout(0.1), L.Dense(4)])
    one("nested", (4,), lambda x: inner(inner(x)))
    one("two_outputs", (4,), lambda x: [L.Dense(3)(x), L.Dense(2, name="score")(x)])
    one("open", (None, 4), lambda x: L.Conv1D(3, 3, padding="same")(x))


def cases() -> dict[str, tuple[Any, list[np.ndarray]]]:
    """Models by name, with weights and inputs from seeds."""
    if not MODELS:
        for made in (
            core, activations, convolutions, pools, normalizations, recurrents, attentions,
            shapes, preprocessing, functions, models,
        ):  # fmt: skip
            made()
    found = {}
    for name, (wanted, made, dtypes) in MODELS.items():
        keras.backend.clear_session()
        random = np.random.default_rng(len(name))
        given = [
            keras.Input(shape, name=f"x{n}", dtype=dtypes.get(f"x{n}", "float32"))
            for n, shape in enumerate(wanted)
        ]
        model = keras.Model(given, made(*given))
        for weight in model.weights:
            drawn = random.standard_normal(weight.shape) * 0.5
            positive = "variance" in weight.path or "count" in weight.path
            if "seed" not in weight.path and weight.dtype == "float32":
                weight.assign(np.abs(drawn) + 0.5 if positive else drawn)
        found[name] = (model, [_input(random, x) for x in given])
    return found


def _input(random: np.random.Generator, x: Any) -> np.ndarray:
    shape = [2, *(6 if n is None else n for n in x.shape[1:])]
    if x.dtype == "int32":
        return random.integers(0, 7, shape).astype(np.int32)
    if x.dtype == "bool":
        return random.random(shape) < 0.7
    return random.standard_normal(shape).astype(np.float32)
