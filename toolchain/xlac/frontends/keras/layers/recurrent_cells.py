"""The cells of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xlac.frontends.keras.call import LayerCall
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build

Step = Callable[[Sequence[Node], Node, Sequence[Node]], tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """A cell: `step` makes new states from states, the product of its input with the kernel, and
    what all steps share; the first state is the output.
    """

    states: tuple[tuple[Dim, ...], ...]  # the shape of each, without the batch
    learned: tuple[Node, ...]  # the kernel, and a bias if there is one
    step: Step
    shared: tuple[Node, ...]
    before: Callable[[Node], Node] | None = None  # what makes all inputs of `step` of x; a product

    def inputs(self, x: Node) -> Node:
        """The inputs of all steps: (batch, time, …)."""
        return self.before(x) if self.before is not None else _before(x, self.learned)


def _product(x: Node, kernel: Node) -> Node:
    return build.dot(x, kernel, ((x.type.rank - 1,), (0,)))


def _before(x: Node, learned: Sequence[Node]) -> Node:
    """The product of an input (…, features) with a kernel, plus a bias."""
    product = _product(x, learned[0])
    return build.add(product, learned[1]) if len(learned) > 1 else product


def _parts(x: Node, count: int, units: int) -> list[Node]:
    axis = x.type.rank - 1
    return [build.cut(x, axis, n * units, (n + 1) * units) for n in range(count)]


def _kernels(call: LayerCall, gates: int) -> tuple[int, Node, Node]:
    units = call.integer("units")
    kernel = call.weight("kernel", (None, gates * units))
    return units, kernel, call.weight("recurrent_kernel", (units, gates * units))


def simple(call: LayerCall) -> RecurrentCell:
    """h = activation(x W + b + h R)."""
    units, kernel, recurrent = _kernels(call, 1)
    bias = [call.weight("bias", (units,))] if call.flag("use_bias", True) else []
    f = activation_of(call, "activation", "tanh")

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        return (f(build.add(x, _product(states[0], shared[0]))),)

    return RecurrentCell(((units,),), (kernel, *bias), step, (recurrent,))


def lstm(call: LayerCall) -> RecurrentCell:
    """Gates in the order input, forget, cell, output."""
    units, kernel, recurrent = _kernels(call, 4)
    bias = [call.weight("bias", (4 * units,))] if call.flag("use_bias", True) else []
    f = activation_of(call, "activation", "tanh")
    g = activation_of(call, "recurrent_activation", "sigmoid")

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        h, c = states
        enter, forget, new, out = _parts(build.add(x, _product(h, shared[0])), 4, units)
        c = build.add(build.mul(g(forget), c), build.mul(g(enter), f(new)))
        return build.mul(g(out), f(c)), c

    return RecurrentCell(((units,), (units,)), (kernel, *bias), step, (recurrent,))


def gru(call: LayerCall) -> RecurrentCell:
    """Gates in the order update, reset, new; `reset_after` resets what the kernel gives."""
    units, kernel, recurrent = _kernels(call, 3)
    after, biased = call.flag("reset_after", True), call.flag("use_bias", True)
    shape = (2, 3 * units) if after else (3 * units,)
    bias = [call.weight("bias", shape)] if biased else []
    f = activation_of(call, "activation", "tanh")
    g = activation_of(call, "recurrent_activation", "sigmoid")
    rows = (
        [build.reshape(build.cut(b, 0, n, n + 1), (3 * units,)) for b in bias for n in range(2)]
        if after
        else bias
    )

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        (h,) = states
        xz, xr, xh = _parts(x, 3, units)
        if after:
            inner = _product(h, shared[0])
            inner = build.add(inner, shared[1]) if len(shared) > 1 else inner
            hz, hr, hh = _parts(inner, 3, units)
            z, r = g(build.add(xz, hz)), g(build.add(xr, hr))
            new = f(build.add(xh, build.mul(r, hh)))
        else:
            hz, hr = _parts(_product(h, build.cut(shared[0], 1, 0, 2 * units)), 2, units)
            z, r = g(build.add(xz, hz)), g(build.add(xr, hr))
            last = build.cut(shared[0], 1, 2 * units, 3 * units)
            new = f(build.add(xh, _product(build.mul(r, h), last)))
        return (build.add(build.mul(z, h), build.mul(build.sub(1.0, z), new)),)

    return RecurrentCell(((units,),), (kernel, *rows[:1]), step, (recurrent, *rows[1:]))


CELLS = {"SimpleRNNCell": simple, "LSTMCell": lstm, "GRUCell": gru}


def activation_of(call: LayerCall, name: str, default: str) -> Callable[[Node], Node]:
    """The activation of a layer; its default where the configuration leaves it out."""
    if name in call.layer.config:
        return call.activation(name)
    config = {**call.layer.config, name: default}
    return replace(call, layer=replace(call.layer, config=config)).activation(name)


def stacked(cells: Sequence[RecurrentCell]) -> RecurrentCell:
    """Cells one after another: each takes the output of the one before."""

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        after: list[Node] = []
        states, shared = list(states), list(shared)
        for number, cell in enumerate(cells):
            own, states = states[: len(cell.states)], states[len(cell.states) :]
            if number:
                learned, shared = shared[: len(cell.learned)], shared[len(cell.learned) :]
                x = _before(x, learned)
            kernels, shared = shared[: len(cell.shared)], shared[len(cell.shared) :]
            new = cell.step(own, x, kernels)
            after += new
            x = new[0]
        return *after, x

    shapes = tuple(shape for cell in cells for shape in cell.states)
    kept = [*cells[0].shared]
    for cell in cells[1:]:
        kept += [*cell.learned, *cell.shared]
    return RecurrentCell(shapes, cells[0].learned, step, tuple(kept))
