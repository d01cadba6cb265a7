"""The cell of ConvLSTM layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.layers.convolution import convolved, filters_first
from xlac.frontends.keras.layers.recurrent_cells import RecurrentCell, activation_of
from xlac.ir.graph import Node
from xlac.ops import build


def conv_lstm(call: LayerCall) -> RecurrentCell:
    """An LSTM whose products are convolutions; gates in the order input, forget, cell, output."""
    rank = int(call.layer.kind[-2])
    filters, size = call.integer("filters"), call.integers("kernel_size", rank)
    x = call.floats(call.inputs[0])
    if x.type.rank != rank + 3:
        call.fail(f"x has {rank + 3} axes, got {x.type}")
    if not all(isinstance(n, int) for n in x.shape[2:]):
        call.fail(f"all sizes of {x.type} but the batch and the time must be known")
    last = call.channels_last
    channels = x.shape[-1 if last else 2]
    kernel = call.weight("kernel", (*size, channels, 4 * filters), filters_first)
    recurrent = call.weight("recurrent_kernel", (*size, filters, 4 * filters), filters_first)
    bias = [call.weight("bias", (4 * filters,))] if call.flag("use_bias", True) else []
    f = activation_of(call, "activation", "tanh")
    g = activation_of(call, "recurrent_activation", "sigmoid")
    axis = rank + 1 if last else 1

    def before(x: Node) -> Node:
        joined = build.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
        y = convolved(call, joined, [kernel, *bias], 4 * filters, 1, False)
        return build.reshape(y, (*x.shape[:2], *y.shape[1:]))

    config = {"strides": [1] * rank, "padding": "same", "dilation_rate": [1] * rank}
    inner = replace(call, layer=replace(call.layer, config={**call.layer.config, **config}))

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        h, c = states
        sums = build.add(x, convolved(inner, h, [shared[0]], 4 * filters, 1, False))
        enter, forget, new, out = (
            build.cut(sums, axis, n * filters, (n + 1) * filters) for n in range(4)
        )
        c = build.add(build.mul(g(forget), c), build.mul(g(enter), f(new)))
        return build.mul(g(out), f(c)), c

    shape = list(before(x).shape[2:])
    shape[axis - 1] = filters
    return RecurrentCell((tuple(shape),) * 2, (kernel, *bias), step, (recurrent,), before)
