"""Recurrent layers. The products of all steps with the kernel are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.config import LayerConfig, layer_of
from xlac.frontends.keras.file.malformed import MalformedKerasFile
from xlac.frontends.keras.registry import layer
from xlac.frontends.keras.snake_case import snake_case
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Scan

Step = Callable[[Sequence[Node], Node, Sequence[Node]], tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """A cell: `step` makes new states from states, the product of its input with the kernel, and
    what all steps share; the first state is the output.
    """

    units: tuple[int, ...]  # of each state
    learned: tuple[Node, ...]  # the kernel, and a bias if there is one
    step: Step
    shared: tuple[Node, ...]


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


def _simple(call: LayerCall) -> RecurrentCell:
    """h = activation(x W + b + h R)."""
    units, kernel, recurrent = _kernels(call, 1)
    bias = [call.weight("bias", (units,))] if call.flag("use_bias", True) else []
    f = _activation(call, "activation", "tanh")

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        return (f(build.add(x, _product(states[0], shared[0]))),)

    return RecurrentCell((units,), (kernel, *bias), step, (recurrent,))


def _lstm(call: LayerCall) -> RecurrentCell:
    """Gates in the order input, forget, cell, output."""
    units, kernel, recurrent = _kernels(call, 4)
    bias = [call.weight("bias", (4 * units,))] if call.flag("use_bias", True) else []
    f = _activation(call, "activation", "tanh")
    g = _activation(call, "recurrent_activation", "sigmoid")

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        h, c = states
        enter, forget, new, out = _parts(build.add(x, _product(h, shared[0])), 4, units)
        c = build.add(build.mul(g(forget), c), build.mul(g(enter), f(new)))
        return build.mul(g(out), f(c)), c

    return RecurrentCell((units, units), (kernel, *bias), step, (recurrent,))


def _gru(call: LayerCall) -> RecurrentCell:
    """Gates in the order update, reset, new; `reset_after` resets what the kernel gives."""
    units, kernel, recurrent = _kernels(call, 3)
    after, biased = call.flag("reset_after", True), call.flag("use_bias", True)
    shape = (2, 3 * units) if after else (3 * units,)
    bias = [call.weight("bias", shape)] if biased else []
    f = _activation(call, "activation", "tanh")
    g = _activation(call, "recurrent_activation", "sigmoid")
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

    return RecurrentCell((units,), (kernel, *rows[:1]), step, (recurrent, *rows[1:]))


CELLS = {"SimpleRNNCell": _simple, "LSTMCell": _lstm, "GRUCell": _gru}


def _activation(call: LayerCall, name: str, default: str) -> Callable[[Node], Node]:
    """The activation of a layer; its default where the configuration leaves it out."""
    if name in call.layer.config:
        return call.activation(name)
    config = {**call.layer.config, name: default}
    return replace(call, layer=replace(call.layer, config=config)).activation(name)


def _stacked(cells: Sequence[RecurrentCell]) -> RecurrentCell:
    """Cells one after another: each takes the output of the one before."""

    def step(states: Sequence[Node], x: Node, shared: Sequence[Node]) -> tuple[Node, ...]:
        after: list[Node] = []
        states, shared = list(states), list(shared)
        for number, cell in enumerate(cells):
            own, states = states[: len(cell.units)], states[len(cell.units) :]
            if number:
                learned, shared = shared[: len(cell.learned)], shared[len(cell.learned) :]
                x = _before(x, learned)
            kernels, shared = shared[: len(cell.shared)], shared[len(cell.shared) :]
            new = cell.step(own, x, kernels)
            after += new
            x = new[0]
        return *after, x

    units = tuple(n for cell in cells for n in cell.units)
    kept = [*cells[0].shared]
    for cell in cells[1:]:
        kept += [*cell.learned, *cell.shared]
    return RecurrentCell(units, cells[0].learned, step, tuple(kept))


def _run(call: LayerCall, cell: RecurrentCell, stack: bool = False) -> tuple[Node, ...]:
    """The results of a recurrent layer: outputs, and with `return_state` the last states."""
    if call.flag("stateful"):
        call.unsupported("stateful layers are not supported", "give them their states as inputs")
    if call.flag("time_major"):
        call.unsupported("time_major is not supported")
    x, *initial = call.inputs
    given = call.kwargs.get("initial_state")
    if given is not None:
        initial += [given] if isinstance(given, Node) else list(given)
    x = call.floats(x)
    if x.type.rank != 3:
        call.fail(f"x is (batch, time, features), got {x.type}")
    states = initial or [build.full(0.0, (x.shape[0], n), x.type.dtype) for n in cell.units]
    if len(states) != len(cell.units):
        call.fail(f"it has {len(cell.units)} states, and is called with {len(states)}")
    back = call.flag("go_backwards")
    steps = build.transpose(_before(x, cell.learned), (1, 0, 2))

    def body(*values: Node) -> tuple[Node, ...]:
        count = len(states)
        new = cell.step(values[:count], values[count], values[count + 1 :])
        return (*new, new[0]) if len(new) == count else new

    kept = [*states, *cell.shared]
    types = [*(s.type for s in states), steps.type.with_shape(steps.shape[1:])]
    types += [node.type for node in cell.shared]
    op = Scan(build.graph("step", types, body), steps.shape[0], len(states), 1, back)
    *last, y = build.results(Node.of(op, *kept[: len(states)], steps, *cell.shared))
    every = build.transpose(y, (1, 0, 2))
    if back and call.flag("return_sequences"):
        every = build.apply1("flip", every, axis=[1])
    end = last[0] if not stack else last[_last_output(cell, call)]
    result = every if call.flag("return_sequences") else end
    return (result, *last) if call.flag("return_state") else (result,)


def _last_output(cell: RecurrentCell, call: LayerCall) -> int:
    """The number of the state that is the output of the last of several cells."""
    return len(cell.units) - len(_cells(call)[-1].units)


def _layer(make: Callable[[LayerCall], RecurrentCell], name: str) -> Callable[..., object]:
    def build_layer(call: LayerCall) -> tuple[Node, ...]:
        inner = call.child("cell", "cell", lambda part: False)
        return _run(call, make(inner))

    build_layer.__doc__ = f"The cell of {name} at each step."
    return build_layer


for _name, _cell in (("SimpleRNN", _simple), ("LSTM", _lstm), ("GRU", _gru)):
    layer(_name)(_layer(_cell, _name))


def _cells(call: LayerCall) -> list[RecurrentCell]:
    """The cells of an RNN: one, or those of StackedRNNCells."""
    cell = call.get("cell")
    configs = cell if isinstance(cell, list) else [cell]
    folder = "cell/cells" if isinstance(cell, list) else ""
    try:
        layers = [layer_of(config, "its cell") for config in configs]
        if len(layers) == 1 and layers[0].kind == "StackedRNNCells":
            folder = "cell/cells"
            layers = [layer_of(c, "its cell") for c in layers[0].config.get("cells") or ()]
    except MalformedKerasFile as error:
        call.fail(str(error))
    if not layers:
        call.fail("it has no cell")
    seen: dict[str, int] = {}
    return [_cell_of(call, config, folder, seen) for config in layers]


def _cell_of(
    call: LayerCall, config: LayerConfig, folder: str, seen: dict[str, int]
) -> RecurrentCell:
    if config.custom or config.kind not in CELLS:
        call.unsupported(
            f"cells of class {config.kind} are not supported", f"one of {', '.join(CELLS)}"
        )
    kind = snake_case(config.kind)
    number = seen.get(kind, 0)
    seen[kind] = number + 1
    path = f"{folder}/{kind}_{number}" if number else f"{folder}/{kind}"
    inner = call.child(config.name, path if folder else "cell", lambda part: part == config.name)
    return CELLS[config.kind](replace(inner, layer=config))


@layer("RNN")
def rnn(call: LayerCall) -> tuple[Node, ...]:
    """A cell, or several one after another, at each step."""
    cells = _cells(call)
    if len(cells) == 1:
        return _run(call, cells[0])
    return _run(call, _stacked(cells), stack=True)


@layer("Bidirectional")
def bidirectional(call: LayerCall) -> tuple[Node, ...]:
    """A recurrent layer forwards and another backwards, merged."""
    first = call.inner()
    second = (
        call.inner("backward_layer")
        if call.get("backward_layer") is not None
        else replace(
            first, config={**first.config, "go_backwards": not first.config.get("go_backwards")}
        )
    )
    if call.kwargs.get("initial_state") is not None or len(call.inputs) != 1:
        call.unsupported("initial states are not supported in it")
    ahead = call.within(first, "forward_layer", [call.x], lambda n: n.startswith("forward_"))
    behind = call.within(second, "backward_layer", [call.x], lambda n: n.startswith("backward_"))
    y, z = ahead[0], behind[0]
    if second.config.get("return_sequences"):
        z = build.apply1("flip", z, axis=[1])
    states = (*ahead[1:], *behind[1:])
    mode = call.get("merge_mode")
    if mode is None:
        return y, z, *states
    mode = call.choice("merge_mode", ("concat", "sum", "mul", "ave"), "concat")
    if mode == "concat":
        merged = build.concat([y, z], y.type.rank - 1)
    elif mode == "mul":
        merged = build.mul(y, z)
    else:
        merged = build.add(y, z)
        merged = build.mul(merged, 0.5) if mode == "ave" else merged
    return merged, *states
