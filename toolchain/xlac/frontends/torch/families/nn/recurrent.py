"""A layer of an LSTM, as `torch.compile` captures it for inference where Dynamo does not skip
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.control.control import Scan

LSTM = 2  # the number of the kind of layer in ideep's enumeration


@aten("mkldnn_rnn_layer")
def lstm_layer(
    call: AtenCall,
    input: Node,
    weight0: Node,
    weight1: Node,
    weight2: Node,
    weight3: Node,
    hx_: Node,
    cx_: Node,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Node, ...]:
    """The outputs of all steps, (time, batch, hidden), the last hidden and cell state, and a
    workspace for the gradient, which is not computed here and so is empty.
    """
    if mode != LSTM or num_layers != 1 or bidirectional or batch_first or batch_sizes:
        raise NotExpressible("another layer than one of an LSTM in one direction")
    steps, batch, _ = input.shape
    wide = (steps, batch, weight0.shape[0])
    gates = build.apply1("matmul", input, build.transpose(weight0, [1, 0]))
    if has_biases:
        bias = build.add(weight2, weight3)
        gates = build.add(gates, build.broadcast_to(bias, wide))
    state = [build.reshape(x, (batch, hidden_size)) for x in (hx_, cx_)]

    def step(hidden: Node, cell: Node, gates: Node, weight: Node) -> list[Node]:
        whole = build.add(gates, build.apply1("matmul", hidden, weight))
        chosen, forgotten, new, shown = (
            build.cut(whole, 1, n * hidden_size, (n + 1) * hidden_size) for n in range(4)
        )
        chosen, forgotten, shown = (
            build.apply1("sigmoid", gate) for gate in (chosen, forgotten, shown)
        )
        added = build.mul(chosen, build.apply1("tanh", new))
        cell = build.add(build.mul(forgotten, cell), added)
        hidden = build.mul(shown, build.apply1("tanh", cell))
        return [hidden, cell, hidden]

    turned = build.transpose(weight1, [1, 0])
    slices = gates.type.with_shape(gates.shape[1:])
    body = build.graph("step", [*(x.type for x in state), slices, turned.type], step)
    found = Node.of(Scan(body, steps, 2, 1, reverse), *state, gates, turned)
    last = (build.reshape(pick(found, n), call.stated(n + 1).shape) for n in range(2))
    return pick(found, 2), *last, call.filled_as(3, 0)
