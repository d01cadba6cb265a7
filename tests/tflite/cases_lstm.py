"""Quantized LSTMs and their forms, called three times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tflite_case import Case, const, q, random
from tflite_writer import Graph, Tensor

BATCH, TIME, INPUTS, UNITS = 2, 6, 5, 8


def quantized_lstms() -> Iterator[Case]:
    """The cases."""
    yield lstm("LSTM_i8", -15)
    yield lstm("LSTM_i8_major", -12, major=True)
    yield lstm("LSTM_i8_coupled", -11, coupled=True)
    yield lstm("LSTM_i8_clipped", -12, clip=0.4)
    yield lstm("LSTM_i8_peephole", -12, peepholes=True)
    yield lstm("LSTM_i8_projection", -12, projection=True)
    yield lstm("LSTM_i8_projection_clipped", -11, projection=True, proj_clip=0.3)
    yield lstm("LSTM_i8_normalized", -12, normalized=True)
    yield lstm("LSTM_i8_normalized_few", -12, normalized=True, units=6)
    yield lstm("LSTM_i8_seen_normalized", -11, peepholes=True, normalized=True, coupled=True)
    yield lstm(
        "LSTM_i8_all", -10, projection=True, normalized=True, coupled=True, major=True, clip=0.9
    )


def _small(seed: int, units: int, low: int = -9000, high: int = 9000) -> Tensor:
    numbers = np.random.default_rng(seed).integers(low, high, units)
    return const(numbers, "i16", scale=1.0 / 16384)


def lstm(
    name: str,
    bits: int,
    major: bool = False,
    coupled: bool = False,
    clip: float = 0.0,
    peepholes: bool = False,
    projection: bool = False,
    proj_clip: float = 0.0,
    normalized: bool = False,
    units: int = UNITS,
) -> Case:
    """Units whose cells have so many bits after the point."""
    taken = q(TIME, BATCH, INPUTS, zero=7) if major else q(BATCH, TIME, INPUTS, zero=7)
    out = units - 3 if projection else units
    hidden = {"scale": 1 / 127, "zero": -9}
    given = {"scale": 1 / 90, "zero": 5} if projection else hidden
    rows = [(n, size) for size in (INPUTS, out) for n in range(4)]
    weights: list[Tensor | None] = [
        random(n + size, units, size, dtype="i8", scale=0.012 + 0.001 * n) for n, size in rows
    ]
    seen = [_small(40 + n, units) if peepholes else None for n in range(3)]
    bias: list[Tensor | None] = [random(20 + n, units, dtype="i32", scale=6e-4) for n in range(4)]
    norms = [_small(50 + n, units, 2000, 12000) if normalized else None for n in range(4)]
    project: list[Tensor | None] = [None, None]
    if projection:
        project = [
            random(60, out, units, dtype="i8", scale=0.009),
            random(61, out, dtype="i32", scale=0.009 / 127),
        ]
    if coupled:
        weights[0] = weights[4] = bias[0] = seen[0] = norms[0] = None
    states = [
        Tensor("i8", (BATCH, out), variable=True, **given),
        Tensor("i16", (BATCH, units), variable=True, scale=2.0**bits),
    ]
    operands = [taken, *weights, *seen, *bias, *project, *states, *norms]
    shape = (TIME, BATCH, out) if major else (BATCH, TIME, out)
    gates = [Tensor("i16", (0,), scale=2.0**-11 * (1 + n / 8)) for n in range(4)]
    between = [*(gates if normalized else [Tensor("f32", (0,))] * 4), Tensor("i8", (0,), **hidden)]
    listed = [t for t in operands if t is not None]
    numbers = iter(range(len(listed)))
    inner = [-1 if t is None else next(numbers) for t in operands]
    result = len(listed)
    options = {
        "table": "UnidirectionalSequenceLSTMOptions",
        "fused_activation_function": 4,
        "cell_clip": clip,
        "proj_clip": proj_clip,
        "time_major": major,
        "intermediates": range(result + 1, result + 6),
    }
    tensors = [*listed, Tensor("i8", shape, **given), *between]
    operator = ("UNIDIRECTIONAL_SEQUENCE_LSTM", options, inner, [result])
    return Case(name, Graph(tensors, [operator], [0], [result]), calls=3)
