"""Models of Keras, one for each layer and its forms: `cases()` builds them, with Keras."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import keras
import numpy as np
from keras import layers as L
from keras_case import IMAGE, MODELS, SERIES, SOLID, case, one
from keras_category_cases import categories, histograms, ratios, sounds, windows
from keras_function_cases import arrangements, of_integers, orderings, pointwise
from keras_mask_cases import masks, pictures, stateful
from keras_shape_cases import functions, preprocessing, shapes


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
        "relu",
        "leaky_relu",
        "relu6",
        "softmax",
        "celu",
        "elu",
        "selu",
        "softplus",
        "softsign",
        "squareplus",
        "soft_shrink",
        "sparse_plus",
        "silu",
        "gelu",
        "tanh",
        "tanh_shrink",
        "sigmoid",
        "sparse_sigmoid",
        "exponential",
        "hard_sigmoid",
        "hard_silu",
        "hard_tanh",
        "hard_shrink",
        "linear",
        "mish",
        "log_softmax",
        "log_sigmoid",
    ):
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


def models() -> None:
    """Models of several layers: shared ones, models inside models, several outputs."""
    shared = L.Dense(4, activation="tanh")
    one("shared", (4,), lambda x: shared(shared(x)) + x)
    inner = keras.Sequential([L.Dense(3), L.Dropout(0.1), L.Dense(4)])
    one("nested", (4,), lambda x: inner(inner(x)))
    x = keras.Input((4,))
    twins = keras.Model(x, [L.Dense(4)(x), L.Dense(3)(x)], name="twins")
    one("nested_output", (4,), lambda x: [*twins(twins(x)[0]), L.Dense(2)(twins(x)[1])])
    one("two_outputs", (4,), lambda x: [L.Dense(3)(x), L.Dense(2, name="score")(x)])
    one("open", (None, 4), lambda x: L.Conv1D(3, 3, padding="same")(x))


def cases(without: Collection[str] = ()) -> dict[str, tuple[Any, list[np.ndarray]]]:
    """Models by name, with weights and inputs from seeds."""
    if not MODELS:
        for made in (
            core,
            activations,
            convolutions,
            pools,
            normalizations,
            recurrents,
            attentions,
            masks,
            pictures,
            stateful,
            shapes,
            preprocessing,
            functions,
            pointwise,
            of_integers,
            arrangements,
            orderings,
            categories,
            sounds,
            histograms,
            ratios,
            windows,
            models,
        ):
            made()
    found = {}
    for name, (wanted, made, dtypes) in MODELS.items():
        if name in without:
            continue
        keras.backend.clear_session()
        random = np.random.default_rng(len(name))
        given = [
            keras.Input(
                shape,
                name=f"x{n}",
                dtype=dtypes.get(f"x{n}", "float32"),
                batch_size=2 if name.startswith("stateful") else None,
            )
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
    if x.dtype.startswith("int"):
        return random.integers(0, 7, shape).astype(x.dtype)
    if x.dtype == "bool":
        return random.random(shape) < 0.7
    return random.standard_normal(shape).astype(np.float32)
