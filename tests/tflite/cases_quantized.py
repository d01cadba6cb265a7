"""Cases of recurrent layers of int8, whose states are variables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tflite_case import Case, const, q, random
from tflite_writer import Graph, Tensor


def cases() -> Iterator[Case]:
    """The cases, each called three times."""
    yield _lstm("LSTM_i8", -15)
    yield _lstm("LSTM_i8_major", -12, major=True)
    yield _lstm("LSTM_i8_coupled", -11, coupled=True)
    yield _lstm("LSTM_i8_clipped", -12, clip=0.4)
    for rank in (1, 2):
        yield _svdf(rank)


def _lstm(
    name: str, bits: int, major: bool = False, coupled: bool = False, clip: float = 0.0
) -> Case:
    """Units whose cells have so many bits after the point."""
    batch, time, inputs, units = 2, 6, 5, 8
    taken = q(time, batch, inputs, zero=7) if major else q(batch, time, inputs, zero=7)
    hidden = {"scale": 1 / 127, "zero": -9}
    rows = [(n, size) for size in (inputs, units) for n in range(4)]
    weights: list[Tensor | None] = [
        random(n + size, units, size, dtype="i8", scale=0.012 + 0.001 * n) for n, size in rows
    ]
    bias: list[Tensor | None] = [random(20 + n, units, dtype="i32", scale=6e-4) for n in range(4)]
    if coupled:
        weights[0] = weights[4] = bias[0] = None
    states = [
        Tensor("i8", (batch, units), variable=True, **hidden),
        Tensor("i16", (batch, units), variable=True, scale=2.0**bits),
    ]
    none: list[Tensor | None] = [None] * 3
    operands = [taken, *weights, *none, *bias, None, None, *states, *none, None]
    shape = (time, batch, units) if major else (batch, time, units)
    between = [*([Tensor("f32", (0,))] * 4), Tensor("i8", (0,), **hidden)]
    given = [t for t in operands if t is not None]
    numbers = iter(range(len(given)))
    inner = [-1 if t is None else next(numbers) for t in operands]
    result = len(given)
    options = {
        "table": "UnidirectionalSequenceLSTMOptions",
        "fused_activation_function": 4,
        "cell_clip": clip,
        "proj_clip": 0.0,
        "time_major": major,
        "intermediates": range(result + 1, result + 6),
    }
    tensors = [*given, Tensor("i8", shape, **hidden), *between]
    operator = ("UNIDIRECTIONAL_SEQUENCE_LSTM", options, inner, [result])
    return Case(name, Graph(tensors, [operator], [0], [result]), calls=3)


def _svdf(rank: int) -> Case:
    batch, inputs, filters, memory = 2, 3, 6, 5
    random_times = np.random.default_rng(2).integers(-3000, 3000, (filters, memory))
    tensors = [
        q(batch, inputs, zero=4),
        random(1, filters, inputs, dtype="i8", scale=0.01),
        const(random_times, "i16", scale=3e-4),
        random(3, filters // rank, dtype="i32", scale=3e-4 * 1e-3),
        Tensor("i16", (batch, filters * memory), variable=True, scale=1e-3),
        q(batch, filters // rank, scale=0.03, zero=-5),
    ]
    options = {"table": "SVDFOptions", "rank": rank, "fused_activation_function": 1}
    graph = Graph(tensors, [("SVDF", options, [0, 1, 2, 3, 4], [5])], [0], [5])
    return Case(f"SVDF_i8_{rank}", graph, calls=3)
