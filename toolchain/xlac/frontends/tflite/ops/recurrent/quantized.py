"""Recurrent layers of int8, in the integers of TensorFlow Lite's reference kernels: gates are of 16
bits with 12 after the point, their activations of 16 bits with 15 after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.tensors import AffineQuantization, TensorInfo
from xlac.frontends.tflite.multiplier import divided
from xlac.frontends.tflite.ops.recurrent.fixed_point import logistic, tanh
from xlac.frontends.tflite.ops.recurrent.gate_normalization import normalized_gate
from xlac.frontends.tflite.ops.recurrent.state import Step, keep, scanned, state
from xlac.frontends.tflite.quantization import centred, rescaled, scaled
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

GATE = 2.0**-12  # the scale of a gate before its activation
FRACTION = 2.0**-15  # that of an activation's result, and of what lies in [-1, 1)
LOW, HIGH = -32768, 32767


@dataclass(frozen=True, slots=True)
class LstmScales:
    """The scales inside an LSTM: of its cell, 2^bits, of its gates before their activations, and
    the quantization of what it gives before the projection.
    """

    bits: int
    gates: tuple[float, ...]
    hidden: TensorInfo

    @classmethod
    def of(cls, call: TFLiteCall) -> LstmScales:
        """The scales of a call. Raises ShapeError."""
        cell = float(_scale(call, 19).scales[0])
        bits = round(np.log2(cell))
        if 2.0**bits != cell or bits < -15:
            call.fail(
                f"the scale of its cell is {cell}, where kernels take 2^-15 and larger powers of "
                "two"
            )
        gates = [GATE] * 4
        if _normalized(call):
            gates = [_single(call, call.between(n)) for n in range(4)]
        hidden = call.between(4) if call.get(16) is not None else call.info(18)
        if hidden.dtype is not DType.I8:
            call.fail(f"'{hidden.name}' is of type {hidden.kind}, where int8 is supported")
        _single(call, hidden)
        return cls(bits, tuple(gates), hidden)


def _single(call: TFLiteCall, info: TensorInfo) -> float:
    """The only scale of a tensor."""
    if info.quantization is None or not info.quantization.single:
        call.fail(f"'{info.name}' needs a single scale")
    return float(info.quantization.scales[0])


def _normalized(call: TFLiteCall) -> bool:
    """Whether gates are normalized."""
    return any(call.get(n) is not None for n in range(20, 24))


def quantized_lstm(call: TFLiteCall, x: Node) -> Node:
    """The outputs of all steps of x i8(time, batch, inputs): gates in the order input, forget,
    cell, output; without an input gate it is 1 minus the forget gate.
    """
    if call[0].type.dtype is not DType.I8 or call.info(19).dtype is not DType.I16:
        call.fail("only recurrent layers of int8 with cells of int16 are supported")
    gates = [n for n in range(4) if call.get(1 + n) is not None]
    if gates not in ([0, 1, 2, 3], [1, 2, 3]):
        call.fail("its weights for forget, cell or output gate are missing")
    if call.get(16) is not None and any(call.get(n) is not None for n in (9, 10, 11)):
        call.fail(
            "peepholes beside a projection are not supported: the kernels add as many as there are "
            "results, to other units where there are several examples"
        )
    scales, units = LstmScales.of(call), call[2].shape[0]
    sides = _gates(call, centred(x, _scale(call, 0)), gates, scales)
    given = {
        number: call[number]
        for number in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23)
        if call.get(number) is not None
    }
    step = _step(call, gates, scales, units, tuple(given))
    states = [state(call, 18), state(call, 19)]
    h, c, y = scanned(step, states, sides, list(given.values()))
    keep(call, 18, h)
    keep(call, 19, c)
    return y


def _step(
    call: TFLiteCall, gates: Sequence[int], scales: LstmScales, units: Dim, numbers: Sequence[int]
) -> Step:
    """One step, of which the further operands are the inputs of those numbers."""
    output, bits = _scale(call, 18), scales.bits
    limit = call.option("cell_clip") / 2.0**bits
    low, high = (-int(limit), int(limit)) if 0 < limit < HIGH else (LOW, HIGH)
    scale = _single(call, scales.hidden)
    factor = np.asarray(FRACTION * FRACTION / scale, np.float64)

    def step(h: Node, c: Node, x: Node, *rest: Node) -> tuple[Node, ...]:
        held, before = dict(zip(numbers, rest, strict=True)), centred(h, output)

        def opened(number: int, gate: int, cell: Node) -> Node:
            sums = _product(before, held[5 + gate])
            ratio = output.scales[0] * _scale(call, 5 + gate).scales[0] / scales.gates[gate]
            own = build.cut(x, 1, units * number, units * (number + 1))
            y = _clamped(build.add(rescaled(sums, ratio), build.cast(own, DType.I32)))
            peephole = {0: 9, 1: 10, 3: 11}.get(gate)
            if peephole in held:
                seen = build.mul(build.cast(held[peephole], DType.I32), build.cast(cell, DType.I32))
                ratio = 2.0**bits * _scale(call, peephole).scales[0] / scales.gates[gate]
                y = _clamped(build.add(y, rescaled(seen, ratio)))
            if 20 + gate in held:
                weight, bias = held[20 + gate], held.get(12 + gate)
                y = normalized_gate(y, weight, bias, float(_scale(call, 20 + gate).scales[0]))
            return tanh(y, 3) if gate == 2 else logistic(y, 3)

        place = {gate: number for number, gate in enumerate(gates)}
        forget = opened(place[1], 1, c)
        enter = opened(0, 0, c) if 0 in place else build.sub(32767, forget)
        fresh = opened(place[2], 2, c)
        kept = divided(build.mul(forget, build.cast(c, DType.I32)), 15)
        new = divided(build.mul(enter, fresh), 30 + bits)
        total = build.minimum(build.maximum(build.add(kept, new), low), high)
        seen = build.mul(opened(place[3], 3, total), tanh(total, 15 + bits))
        if 16 in held:
            h = _projected(call, rescaled(seen, factor), held[16], held.get(17), scales.hidden)
        else:
            h = scaled(seen, factor, scales.hidden)
        return h, build.cast(total, DType.I16)

    return step


def _projected(
    call: TFLiteCall, h: Node, weight: Node, bias: Node | None, hidden: TensorInfo
) -> Node:
    """What an LSTM gives, of fewer units. The kernels subtract the zero point where others add it
    before they clamp to 8 bits, and add it later.
    """
    assert hidden.quantization is not None
    zero = int(hidden.quantization.zeros[0])
    inside = build.minimum(build.maximum(h, zero - 128), zero + 127)
    sums = _product(build.cast(inside, DType.I16), weight)
    sums = sums if bias is None else build.add(sums, bias)
    state = call.info(18)
    scale = _single(call, state)
    ratio = _scale(call, 16).scales[0] * np.float64(_single(call, hidden)) / scale
    y = scaled(sums, np.asarray(ratio, np.float64), state)
    limit = min(int(call.option("proj_clip") / scale), 127)
    return build.minimum(build.maximum(y, -limit), limit) if limit > 0 else y


def _scale(call: TFLiteCall, number: int) -> AffineQuantization:
    """The quantization of an input, which has a single scale."""
    found = call.info(number).quantization
    if found is None or not found.single:
        call.fail(f"input {number} needs a single scale")
    return found


def _gates(call: TFLiteCall, x: Node, gates: Sequence[int], scales: LstmScales) -> Node:
    """The inputs' part of all gates, i16(time, batch, gates * units)."""
    taken, parts = _scale(call, 0), []
    for gate in gates:
        sums = _product(x, call[1 + gate])
        if call.get(12 + gate) is not None and call.get(20 + gate) is None:
            sums = build.add(sums, call[12 + gate])
        ratio = taken.scales[0] * _scale(call, 1 + gate).scales[0] / scales.gates[gate]
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
