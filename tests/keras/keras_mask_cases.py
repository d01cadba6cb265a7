"""Models whose layers hand on masks, in the ways in which Keras does; states that calls keep."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers as L
from keras_case import SERIES, case, one

TEXT = [(5,)]


def _words(x: Any, width: int = 4) -> Any:
    return L.Embedding(7, width, mask_zero=True)(x)


def masks() -> None:
    """Where masks come from, and where they go."""
    recurrents()
    attentions()
    routes()


def recurrents() -> None:
    """Recurrent layers with masks."""
    one(
        "Masking",
        SERIES,
        L.Masking(0.0),
        lambda x: L.LSTM(3)(L.Masking(0.0)(x)),
        lambda x: L.SimpleRNN(3)(L.Masking(1.0)(keras.ops.where(x > 0, x, 1.0))),
        lambda x: L.LSTM(3, return_sequences=True)(L.Masking()(keras.ops.relu(x[:, :, :1]))),
    )
    for name, layer in {
        "LSTM": L.LSTM(3),
        "GRU_states": L.GRU(3, return_sequences=True, return_state=True),
        "LSTM_back": L.LSTM(3, return_sequences=True, go_backwards=True),
        "GRU_zero": L.GRU(3, return_sequences=True, zero_output_for_mask=True),
        "LSTM_zero": L.LSTM(3, zero_output_for_mask=True),
        "Bidirectional": L.Bidirectional(L.GRU(3)),
        "Bidirectional_steps": L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum"),
        "RNN": L.RNN([L.GRUCell(3), L.LSTMCell(2)], return_sequences=True),
    }.items():
        case(f"mask_{name}", TEXT, lambda x, layer=layer: layer(_words(x)), x0="int32")
    two = [(5,), (3,), (3,)]
    case(
        "mask_LSTM_given",
        [*two, (5,)],
        lambda x, h, c, m: L.LSTM(3, return_sequences=True)(
            _words(x), initial_state=[h, c], mask=m
        ),
        x0="int32",
        x3="bool",
    )
    case(  # with two tensors as arguments Keras does not take the mask of the first
        "mask_LSTM_dropped",
        two,
        lambda x, h, c: L.LSTM(3)(_words(x), initial_state=[h, c]),
        x0="int32",
    )
    pictures = (4, 6, 5, 2)
    case(
        "mask_ConvLSTM2D",
        [pictures, (4,)],
        lambda x, m: L.ConvLSTM2D(3, 3, padding="same", return_sequences=True)(x, mask=m),
        x1="bool",
    )


def attentions() -> None:
    """Attention with masks."""
    case(
        "mask_MultiHeadAttention",
        [(5,), (3,)],
        lambda x, y: L.MultiHeadAttention(2, 3)(_words(x), _words(y, 6)),
        x0="int32",
        x1="int32",
    )

    def wiped(x: Any) -> Any:  # the attention takes the mask of what it is called with
        e = _words(x)
        d = L.Dropout(0.1)(e)
        a = L.MultiHeadAttention(2, 3)(d, d, use_causal_mask=True)
        return [L.GlobalAveragePooling1D()(y) for y in (L.Add()([e, a]), a, e)]

    case("mask_wiped", TEXT, wiped, x0="int32")
    case(
        "mask_MultiHeadAttention_given",
        [SERIES, (5,), (5,), (5,)],
        lambda x, q, v, k: L.MultiHeadAttention(2, 3)(
            x, x, x, query_mask=q, value_mask=v, key_mask=k
        ),
        x1="bool",
        x2="bool",
        x3="bool",
    )
    case(
        "mask_GroupQueryAttention",
        TEXT,
        lambda x: L.GroupQueryAttention(3, 4, 2)(*[_words(x)] * 2),
        x0="int32",
    )
    for name, layer in {
        "Attention": L.Attention(),
        "AdditiveAttention": L.AdditiveAttention(),
    }.items():
        case(
            f"mask_{name}",
            [(5,), (3,)],
            lambda x, y, layer=layer: L.GlobalAveragePooling1D()(layer([_words(x), _words(y)])),
            x0="int32",
            x1="int32",
        )
    case(
        "mask_Attention_given",
        [SERIES, (5,), (5,)],
        lambda x, q, v: L.Attention()([x, x], mask=[q, v], use_causal_mask=True),
        x1="bool",
        x2="bool",
    )


def routes() -> None:
    """What layers do to a mask on its way to a mean over the steps that count."""
    mean = L.GlobalAveragePooling1D
    inner = keras.Sequential([L.Dense(3), L.LayerNormalization()])
    outer = keras.Sequential([L.Embedding(7, 4, mask_zero=True), L.Dense(3)])
    for name, route in {
        "mean": lambda e: e,
        "Dense": lambda e: L.ReLU()(L.Dropout(0.1)(L.Dense(3)(e))),
        "BatchNormalization": L.BatchNormalization(),
        "Conv1D": L.Conv1D(3, 2),  # does not hand it on
        "Reshape": L.Reshape((5, 4)),
        "TimeDistributed": L.TimeDistributed(L.Dense(3)),
        "nested": inner,
        "LSTM_steps": lambda e: L.LSTM(3, return_sequences=True)(e),
        "function": lambda e: keras.ops.tanh(e),
        "Add": lambda e: L.Add()([e, L.Dense(4)(e)]),
        "Add_one": lambda e: L.Add()([e, keras.ops.tanh(e)]),
        "Concatenate": lambda e: L.Concatenate()([e, keras.ops.tanh(e)]),
        "Concatenate_time": lambda e: L.Concatenate(axis=1)([e, keras.ops.tanh(e)]),
    }.items():
        case(f"mask_to_{name}", TEXT, lambda x, route=route: mean()(route(_words(x))), x0="int32")
    case("mask_from_nested", TEXT, lambda x: mean()(outer(x)), x0="int32")
    case("mask_mean_keepdims", TEXT, lambda x: mean(keepdims=True)(_words(x)), x0="int32")
    case("mask_Softmax", [(4,), (4,)], lambda x, m: L.Softmax()(x, mask=m), x1="bool")

    # files of Sequential models do not say which masks their layers are called with
    case(
        "mask_sequence",
        TEXT,
        keras.Sequential(
            [
                L.Embedding(7, 4, mask_zero=True),
                L.SpatialDropout1D(0.1),
                L.Bidirectional(L.LSTM(3, return_sequences=True)),
                L.LayerNormalization(),
                L.GRU(3),
            ]
        ),
        x0="int32",
    )
    case(
        "mask_sequence_dropped",
        TEXT,
        keras.Sequential(
            [
                L.Embedding(7, 4, mask_zero=True),
                L.TimeDistributed(L.Dense(4)),
                L.Reshape((5, 4)),
                L.LSTM(3),
            ]
        ),
        x0="int32",
    )
    case("mask_sequence_mean", [SERIES], lambda x: _relu_mean()(keras.ops.relu(x[:, :, :1])))


def _relu_mean() -> Any:
    return keras.Sequential([L.Masking(0.0), L.Dense(3), L.ReLU(), L.GlobalAveragePooling1D()])


def stateful() -> None:
    """Layers whose states live on from call to call; each is called twice."""
    for name, layer in {
        "LSTM": L.LSTM(3, stateful=True, return_sequences=True),
        "GRU_back": L.GRU(3, stateful=True, go_backwards=True, return_state=True),
        "Bidirectional": L.Bidirectional(L.SimpleRNN(3, stateful=True)),
        "RNN": L.RNN([L.GRUCell(3), L.LSTMCell(2)], stateful=True),
        "masked": keras.Sequential([L.Masking(), L.LSTM(3, stateful=True, return_sequences=True)]),
    }.items():
        case(f"stateful_{name}", [SERIES], layer)
    case("stateful_ConvLSTM1D", [(4, 7, 2)], L.ConvLSTM1D(3, 3, stateful=True))
    twice = L.GRU(4, stateful=True, return_sequences=True)
    case("stateful_shared", [SERIES], lambda x: twice(twice(x)))


def pictures() -> None:
    """ConvLSTM."""
    one(
        "ConvLSTM1D",
        (4, 7, 2),
        L.ConvLSTM1D(3, 3),
        L.ConvLSTM1D(3, 3, padding="same", strides=2, return_sequences=True, go_backwards=True),
        L.ConvLSTM1D(3, 2, dilation_rate=2, use_bias=False, return_state=True),
    )
    one(
        "ConvLSTM2D",
        (4, 6, 5, 2),
        L.ConvLSTM2D(3, 3),
        L.ConvLSTM2D(3, (2, 3), padding="same", activation="relu", return_sequences=True),
        L.Bidirectional(L.ConvLSTM2D(2, 3)),
    )
    one("ConvLSTM3D", (2, 5, 4, 3, 2), L.ConvLSTM3D(2, 2))
