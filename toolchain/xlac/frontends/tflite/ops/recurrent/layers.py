"""The recurrent layers, and those of floats."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.ops.recurrent.gate_normalization import normalized_floats
from xlac.frontends.tflite.ops.recurrent.quantized import quantized_lstm, quantized_svdf
from xlac.frontends.tflite.ops.recurrent.state import keep, scanned, state, time_first
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build


def _floats(call: TFLiteCall) -> None:
    if not call[0].type.dtype.is_float:
        call.fail(
            f"{call.operator} of {call[0].type} is not supported",
            "convert the model with float or dynamic-range recurrent layers",
        )


def _product(x: Node, weight: Node) -> Node:
    return build.dot(x, weight, ((x.type.rank - 1,), (1,)))


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")
def unidirectional_lstm(call: TFLiteCall) -> Node:
    """x (batch, time, inputs), or (time, batch, inputs) if `time_major`; all outputs of all
    steps.
    """
    x = time_first(call, call[0])
    if not x.type.dtype.is_float:
        return time_first(call, quantized_lstm(call, x))
    states = [state(call, 18), state(call, 19)]
    h, c, y = _lstm(call, x, states)
    keep(call, 18, h)
    keep(call, 19, c)
    return time_first(call, y)


def _lstm(call: TFLiteCall, x: Node, states: Sequence[Node]) -> tuple[Node, ...]:
    """The last output and cell, and the outputs of all steps. Gates are in the order input, forget,
    cell, output; without an input gate it is 1 minus the forget gate. Long because a step is made
    of all that the layer has.
    """
    gates = [n for n in range(4) if call.get(1 + n) is not None]
    if gates not in ([0, 1, 2, 3], [1, 2, 3]):
        call.fail("its weights for forget, cell or output gate are missing")
    weight = build.concat([call.real(1 + n) for n in gates], 0)
    recurrent = build.concat([call.real(5 + n) for n in gates], 0)
    units = call[2].shape[0]
    bias = [
        call.real(12 + n)
        if call.get(12 + n) is not None
        else build.full(0.0, (units,), x.type.dtype)
        for n in gates
    ]
    peepholes = {
        n: call.real(at) for n, at in ((0, 9), (1, 10), (3, 11)) if call.get(at) is not None
    }
    norms = {n: call.real(20 + n) for n in gates if call.get(20 + n) is not None}
    # the bias of a normalized gate comes after the normalization
    late = [bias[gates.index(n)] for n in norms]
    outer = [build.like(0.0, b) if n in norms else b for n, b in zip(gates, bias, strict=True)]
    extra = [recurrent, *peepholes.values(), *norms.values(), *late]
    projection = [call.real(n) for n in (16, 17) if call.get(n) is not None]
    extra += projection
    clip, projected_clip = call.option("cell_clip"), call.option("proj_clip")
    activation = call.activated

    def step(h: Node, c: Node, x: Node, recurrent: Node, *rest: Node) -> tuple[Node, ...]:
        parts_of_rest = iter(rest)
        seen, weights, biases = (
            {n: next(parts_of_rest) for n in numbers} for numbers in (peepholes, norms, norms)
        )
        project = list(parts_of_rest)
        sums = build.add(x, _product(h, recurrent))
        size = units
        parts = {gate: build.cut(sums, 1, size * n, size * (n + 1)) for n, gate in enumerate(gates)}

        def entering(gate: int, cell: Node) -> Node:
            part = parts[gate]
            if gate in seen:
                part = build.add(part, build.mul(cell, seen[gate]))
            if gate in weights:
                part = build.add(normalized_floats(part, weights[gate]), biases[gate])
            return part

        def opened(gate: int, cell: Node) -> Node:
            return build.apply1("sigmoid", entering(gate, cell))

        forget = opened(1, c)
        enter = opened(0, c) if 0 in parts else build.sub(1.0, forget)
        c = build.add(build.mul(forget, c), build.mul(enter, activation(entering(2, c))))
        c = _clipped(c, clip)
        h = build.mul(opened(3, c), activation(c))
        if project:
            h = _product(h, project[0])
            h = _clipped(build.add(h, project[1]) if len(project) > 1 else h, projected_clip)
        return h, c

    products = build.add(_product(x, weight), build.concat(outer, 0))
    return scanned(step, states, products, extra)


def _clipped(x: Node, limit: float) -> Node:
    return build.minimum(build.maximum(x, -limit), limit) if limit > 0 else x


def _rnn(call: TFLiteCall, x: Node) -> tuple[Node, Node]:
    """The last state, and those of all steps, of h = activation(x W + h R + b)."""
    activation = call.activated
    products = build.add(_product(x, call.real(1)), call.real(3))

    def step(h: Node, x: Node, recurrent: Node) -> tuple[Node, ...]:
        return (activation(build.add(x, _product(h, recurrent))),)

    last, y = scanned(step, [state(call, 4)], products, [call.real(2)])
    return last, y


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions")
def unidirectional_rnn(call: TFLiteCall) -> Node:
    """x (batch, time, inputs), or (time, batch, inputs) if `time_major`."""
    _floats(call)
    last, y = _rnn(call, time_first(call, call[0]))
    keep(call, 4, last)
    return time_first(call, y)


@operator("RNN", "RNNOptions")
def rnn(call: TFLiteCall) -> Node:
    """One step: x (batch, inputs)."""
    _floats(call)
    x = call[0]
    last, _ = _rnn(call, build.reshape(x, (1, *x.shape)))
    keep(call, 4, last)
    return last


@operator("SVDF", "SVDFOptions")
def svdf(call: TFLiteCall) -> Node:
    """Filters features of x (batch, inputs) over the last calls: the state (batch, filters *
    memory) is shifted by one, and each unit sums the filters of its rank.
    """
    if not call[0].type.dtype.is_float:
        return quantized_svdf(call)
    x, features, times = call[0], call.real(1), call.real(2)
    filters, memory = times.shape
    rank = call.option("rank")
    if not isinstance(filters, int) or rank < 1 or filters % rank:
        call.fail(f"{filters} filters do not divide into units of rank {rank}")
    before = build.reshape(state(call, 4), (x.shape[0], filters, memory))
    new = build.reshape(_product(x, features), (x.shape[0], filters, 1))
    now = build.concat([build.cut(before, 2, 1, memory), new], 2)
    keep(call, 4, build.reshape(now, (x.shape[0], filters * memory)))
    sums = build.reduce(build.mul(now, times), "add", 2)
    units = build.reduce(build.reshape(sums, (x.shape[0], filters // rank, rank)), "add", 2)
    if call.get(3) is not None:
        units = build.add(units, call.real(3))
    return call.give(call.activated(units))
