"""Models of the kinds that run on phones, as Keras models, for the converter of TensorFlow Lite:
each is a function that gives a model with the shapes of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import layers as L

Made = tuple[Any, list[tuple[int, ...]]]
MODELS: dict[str, Callable[[], Made]] = {}


def model(function: Callable[[], Made]) -> Callable[[], Made]:
    """Lists a model under its function's name."""
    MODELS[function.__name__] = function
    return function


def of_keras(x: Any, y: Any) -> Made:
    """A Keras model, with the shapes of its inputs for one example."""
    inputs = x if isinstance(x, list) else [x]
    return keras.Model(x, y), [(1, *i.shape[1:]) for i in inputs]


def one(*shape: int) -> Any:
    """An input of one example."""
    return keras.Input(batch_shape=(1, *shape))


@model
def lstm_stack() -> Made:
    x = one(12, 8)
    y = L.LSTM(8)(L.LSTM(16, return_sequences=True)(x))
    return of_keras(x, L.Dense(4)(y))


@model
def gru_sequence() -> Made:
    x = one(9, 6)
    return of_keras(x, L.GRU(10, return_sequences=True)(x))


@model
def bidirectional_lstm() -> Made:
    x = one(7, 5)
    return of_keras(x, L.Bidirectional(L.LSTM(6, return_sequences=True))(x))


@model
def simple_rnn() -> Made:
    x = one(7, 5)
    return of_keras(x, L.SimpleRNN(6)(x))


@model
def conv_lstm() -> Made:
    x = one(4, 6, 6, 2)
    return of_keras(x, L.ConvLSTM2D(3, 3, padding="same")(x))


def encoder(x: Any, heads: int = 2, causal: bool = False) -> Any:
    """A layer of a transformer."""
    width = x.shape[-1]
    a = L.MultiHeadAttention(heads, width // heads)(x, x, use_causal_mask=causal)
    x = L.LayerNormalization()(L.Add()([x, a]))
    h = L.Dense(width)(L.Dense(2 * width, activation="gelu")(x))
    return L.LayerNormalization()(L.Add()([x, h]))


@model
def transformer_encoder() -> Made:
    x = keras.Input((10, 16))
    return of_keras(x, L.GlobalAveragePooling1D()(encoder(encoder(x))))


@model
def causal_decoder() -> Made:
    x = one(8, 16)
    return of_keras(x, L.Dense(20)(encoder(x, causal=True)))


@model
def vision_transformer() -> Made:
    x = one(16, 16, 3)
    y = L.Reshape((16, 12))(L.Conv2D(12, 4, strides=4)(x))
    return of_keras(x, L.Dense(5)(L.GlobalAveragePooling1D()(encoder(y))))


@model
def cross_attention() -> Made:
    x, memory = one(6, 8), one(9, 8)
    y = L.Attention(use_scale=True)([x, memory])
    return of_keras([x, memory], L.Dense(8)(L.Concatenate()([x, y])))


@model
def mlp_mixer() -> Made:
    x = one(8, 12)
    y = L.Permute((2, 1))(L.LayerNormalization()(x))
    y = L.Permute((2, 1))(L.Dense(8)(L.Dense(16, activation="gelu")(y)))
    x2 = L.Add()([x, y])
    return of_keras(x, L.Add()([x2, L.Dense(12, activation="swish")(L.LayerNormalization()(x2))]))


@model
def keyword_spotting() -> Made:
    x = keras.Input((25, 10, 1))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(16, (5, 4), strides=2, padding="same")(x)))
    for _ in range(2):
        y = L.ReLU()(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(y)))
        y = L.ReLU()(L.BatchNormalization()(L.Conv2D(16, 1)(y)))
    return of_keras(x, L.Dense(12)(L.GlobalAveragePooling2D()(y)))


@model
def temporal_convolutions() -> Made:
    x = one(32, 8)
    y = x
    for rate in (1, 2, 4):
        h = L.Conv1D(8, 3, padding="causal", dilation_rate=rate, activation="relu")(y)
        y = L.Add()([y, h])
    return of_keras(x, L.Dense(3)(L.GlobalMaxPooling1D()(y)))


@model
def wavenet_gate() -> Made:
    x = one(24, 6)
    a = L.Conv1D(6, 2, padding="causal", dilation_rate=2, activation="tanh")(x)
    b = L.Conv1D(6, 2, padding="causal", dilation_rate=2, activation="sigmoid")(x)
    return of_keras(x, L.Add()([x, L.Conv1D(6, 1)(L.Multiply()([a, b]))]))


@model
def unet() -> Made:
    x = one(16, 16, 3)
    a = L.Conv2D(6, 3, padding="same", activation="relu")(x)
    b = L.Conv2D(8, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    up = L.Conv2DTranspose(6, 2, strides=2)(b)
    return of_keras(x, L.Conv2D(4, 1)(L.Concatenate()([a, up])))


@model
def dilated_segmentation() -> Made:
    x = one(16, 16, 3)
    y = L.Conv2D(8, 3, strides=2, padding="same", activation="relu")(x)
    parts = [L.Conv2D(4, 3, padding="same", dilation_rate=n, activation="relu")(y) for n in (1, 2)]
    pooled = L.UpSampling2D(8, interpolation="bilinear")(L.AveragePooling2D(8)(y))
    y = L.Conv2D(3, 1)(L.Concatenate()([*parts, pooled]))
    return of_keras(x, L.UpSampling2D(2, interpolation="bilinear")(y))


@model
def pyramid_features() -> Made:
    x = one(32, 32, 3)
    c3 = L.Conv2D(8, 3, strides=4, padding="same", activation="relu")(x)
    c4 = L.Conv2D(8, 3, strides=2, padding="same", activation="relu")(c3)
    p3 = L.Add()([L.Conv2D(8, 1)(c3), L.UpSampling2D()(L.Conv2D(8, 1)(c4))])
    heads = [L.Reshape((-1, 4))(L.Conv2D(4, 3, padding="same")(p)) for p in (p3, c4)]
    return of_keras(x, L.Concatenate(axis=1)(heads))


@model
def super_resolution() -> Made:
    x = one(8, 8, 3)
    y = L.Conv2D(12, 3, padding="same", activation="relu")(x)
    y = L.Conv2D(12, 3, padding="same")(y)
    return of_keras(x, L.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(y))


@model
def residual_blocks() -> Made:
    x = keras.Input((16, 16, 8))
    y = x
    for _ in range(2):
        h = L.ReLU()(L.BatchNormalization()(L.Conv2D(8, 3, padding="same")(y)))
        y = L.ReLU()(L.Add()([y, L.BatchNormalization()(L.Conv2D(8, 3, padding="same")(h))]))
    return of_keras(x, L.Dense(10)(L.GlobalAveragePooling2D()(y)))


@model
def inverted_residual() -> Made:
    x = one(12, 12, 8)
    y = L.Activation("hard_swish")(L.Conv2D(24, 1)(x))
    y = L.Activation("hard_swish")(L.DepthwiseConv2D(5, padding="same")(y))
    gate = L.Conv2D(24, 1, activation="hard_sigmoid")(L.GlobalAveragePooling2D(keepdims=True)(y))
    return of_keras(x, L.Add()([x, L.Conv2D(8, 1)(L.Multiply()([y, gate]))]))


@model
def separable_network() -> Made:
    x = one(16, 16, 3)
    y = L.SeparableConv2D(8, 3, strides=2, activation="relu6")(x)
    return of_keras(x, L.Dense(4)(L.Flatten()(L.MaxPooling2D(3)(y))))


@model
def grouped_convolutions() -> Made:
    x = one(8, 8, 8)
    return of_keras(x, L.Conv2D(8, 3, groups=4, padding="same", activation="relu")(x))


@model
def video() -> Made:
    x = one(4, 8, 8, 2)
    y = L.Conv3D(4, 3, strides=(1, 2, 2), padding="same", activation="relu")(x)
    return of_keras(x, L.Dense(3)(L.Flatten()(y)))


@model
def autoencoder() -> Made:
    x = keras.Input((24,))
    y = L.Dense(6, activation="tanh")(L.Dense(12, activation="relu")(x))
    return of_keras(x, L.Dense(24)(L.Dense(12, activation="leaky_relu")(y)))


@model
def signal_autoencoder() -> Made:
    x = one(16, 2)
    y = L.Conv1D(4, 4, strides=2, padding="same", activation="relu")(x)
    return of_keras(x, L.Conv1DTranspose(2, 4, strides=2, padding="same")(y))


@model
def generator() -> Made:
    x = one(10)
    y = L.Reshape((4, 4, 4))(L.Dense(64)(x))
    y = L.LeakyReLU()(L.BatchNormalization()(L.Conv2DTranspose(6, 4, 2, padding="same")(y)))
    return of_keras(x, L.Conv2DTranspose(3, 4, 2, padding="same", activation="tanh")(y))


@model
def style_transfer() -> Made:
    x = one(12, 12, 3)
    y = L.GroupNormalization(groups=-1)(L.Conv2D(6, 3, padding="same")(x))
    return of_keras(x, L.Conv2D(3, 3, padding="same", activation="sigmoid")(L.ReLU()(y)))


@model
def two_towers() -> Made:
    a, b = one(10), one(14)
    left, right = L.Dense(8, activation="relu")(a), L.Dense(8, activation="relu")(b)
    left, right = L.UnitNormalization()(left), L.UnitNormalization()(right)
    return of_keras([a, b], L.Dot(axes=1)([left, right]))


@model
def text_classifier() -> Made:
    x = one(12)
    y = L.Embedding(20, 8)(L.Lambda(lambda t: tf.cast(tf.abs(t) * 5, tf.int32))(x))
    y = L.Conv1D(6, 3, activation="relu")(y)
    return of_keras(x, L.Dense(3, activation="softmax")(L.GlobalMaxPooling1D()(y)))
