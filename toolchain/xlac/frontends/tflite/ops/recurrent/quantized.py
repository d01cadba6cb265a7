"""Recurrent layers of int8, in the integers of TensorFlow Lite's reference kernels: gates are of 16
bits with 12 after the point, their activations of 16 bits with 15 after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.tensors import AffineQuantization
from xlac.frontends.tflite.multiplier import divided
from xlac.frontends.tflite.ops.recurrent.fixed_point import logistic, tanh
from xlac.frontends.tflite.ops.recurrent.state import keep, scanned, state
from xlac.frontends.tflite.quantization import centred, rescaled, scaled
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

GATE = 2.0**-12  # the scale of a gate before its activation
FRACTION = 2.0**-15  # that of an activation's result, and of what lies in [-1, 1)
LOW, HIGH = -32768, 32767


def quantized_lstm(call: TFLiteCall, x: Node) -> Node:
    """The outputs of all steps of x i8(time, batch, inputs): gates in the order input, forget,
    cell, output; without an input gate it is 1 minus the forget gate.
    """
    _refuse(call)
    gates = [n for n in range(4) if call.get(1 + n) is not None]
    hidden, cell = _scale(call, 18), float(_scale(call, 19).scales[0])
    bits = round(np.log2(cell))
    if 2.0**bits != cell or bits < -15:
        call.fail(
            f"the scale of its cell is {cell}, where kernels take 2^-15 and larger powers of two"
        )
    units = call[2].shape[0]
    taken = _scale(call, 0)
    sides = [_gates(call, centred(x, taken), taken, 1, gates, bias=12)]
    rest = [call[5 + n] for n in gates]
    limit = call.option("cell_clip") / cell
    low, high = (-int(limit), int(limit)) if 0 < limit < HIGH else (LOW, HIGH)
    out = call.out()
    factor = np.asarray(FRACTION * FRACTION / hidden.scales[0], np.float64)

    def step(h: Node, c: Node, x: Node, *recurrent: Node) -> tuple[Node, ...]:
        before = centred(h, hidden)
        parts = {}
        for number, (gate, weight) in enumerate(zip(gates, recurrent, strict=True)):
            sums = _product(before, weight)
            ratio = hidden.scales[0] * _scale(call, 5 + gate).scales[0] / GATE
            own = build.cut(x, 1, units * number, units * (number + 1))
            parts[gate] = _clamped(build.add(rescaled(sums, ratio), build.cast(own, DType.I32)))
        forget = logistic(parts[1], 3)
        enter = logistic(parts[0], 3) if 0 in parts else build.sub(32767, forget)
        fresh = tanh(parts[2], 3)
        kept = divided(build.mul(forget, build.cast(c, DType.I32)), 15)
        new = divided(build.mul(enter, fresh), 30 + bits)
        total = build.minimum(build.maximum(build.add(kept, new), low), high)
        opened = logistic(parts[3], 3)
        seen = tanh(total, 15 + bits)
        h = scaled(build.mul(opened, seen), factor, out)
        return h, build.cast(total, DType.I16)

    states = [state(call, 18), state(call, 19)]
    h, c, y = scanned(step, states, sides[0], rest)
    keep(call, 18, h)
    keep(call, 19, c)
    return y


def _refuse(call: TFLiteCall) -> None:
    """Fails for the forms that the converter does not write."""
    if call[0].type.dtype is not DType.I8 or call.info(19).dtype is not DType.I16:
        call.fail("only recurrent layers of int8 with cells of int16 are supported")
    for numbers, what in (
        (range(20, 24), "layer normalization"),
        (range(9, 12), "a peephole"),
        (range(16, 18), "a projection"),
    ):
        if any(call.get(n) is not None for n in numbers):
            call.fail(f"{what} inside a quantized LSTM is not supported")


def _scale(call: TFLiteCall, number: int) -> AffineQuantization:
    """The quantization of an input, which has a single scale."""
    found = call.info(number).quantization
    if found is None or not found.single:
        call.fail(f"input {number} needs a single scale")
    return found


def _gates(
    call: TFLiteCall,
    x: Node,
    taken: AffineQuantization,
    first: int,
    gates: Sequence[int],
    bias: int,
) -> Node:
    """The inputs' part of all gates, i16(time, batch, gates * units)."""
    parts = []
    for gate in gates:
        sums = _product(x, call[first + gate])
        if call.get(bias + gate) is not None:
            sums = build.add(sums, call[bias + gate])
        ratio = taken.scales[0] * _scale(call, first + gate).scales[0] / GATE
        parts.append(build.cast(_clamped(rescaled(sums, ratio)), DType.I16))
    return build.concat(parts, 2)


def _product(x: Node, weight: Node) -> Node:
    """i32 sums of integers with the rows of an i8 weight."""
    contract = ((x.type.rank - 1,), (1,))
    return build.dot(x, build.cast(weight, DType.I16), contract, out_dtype=DType.I32)


def _clamped(x: Node) -> Node:
    return build.minimum(build.maximum(x, LOW), HIGH)


def quantized_svdf(call: TFLiteCall) -> Node:
    """Filters features of x i8(batch, inputs) over the last calls, as the layer of floats does."""
    x, features, times = call[0], call[1], call[2]
    taken, weight, window, kept = (_scale(call, n) for n in (0, 1, 2, 4))
    if x.type.dtype is not DType.I8 or times.type.dtype is not DType.I16:
        call.fail("only SVDF of int8 with weights over time of int16 is supported")
    filters, memory = times.shape
    rank = call.option("rank")
    if not isinstance(filters, int) or rank < 1 or filters % rank:
        call.fail(f"{filters} filters do not divide into units of rank {rank}")
    before = build.reshape(state(call, 4), (x.shape[0], filters, memory))
    sums = _product(centred(x, taken), features)
    ratio = float(taken.scales[0]) * float(weight.scales[0]) / float(kept.scales[0])
    new = build.cast(_clamped(rescaled(sums, ratio)), DType.I16)
    new = build.reshape(new, (x.shape[0], filters, 1))
    now = build.concat([build.cut(before, 2, 1, memory), new], 2)
    keep(call, 4, build.reshape(now, (x.shape[0], filters * memory)))
    products = build.mul(build.cast(now, DType.I32), build.cast(times, DType.I32))
    totals = build.reduce(products, "add", 2)
    units = build.reduce(build.reshape(totals, (x.shape[0], filters // rank, rank)), "add", 2)
    if call.get(3) is not None:
        units = build.add(units, call[3])
    quantization = call.out().quantization
    if quantization is None or not quantization.single:
        call.fail("the result needs a single scale")
    factor = float(kept.scales[0]) * float(window.scales[0]) / float(quantization.scales[0])
    return scaled(units, np.asarray(factor), call.out())
