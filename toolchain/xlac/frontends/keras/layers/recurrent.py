"""Recurrent layers. What cells make of the inputs of all steps is computed before the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.config import LayerConfig, layer_of
from xlac.frontends.keras.file.malformed import MalformedKerasFile
from xlac.frontends.keras.file.weights import Fits
from xlac.frontends.keras.layers.conv_lstm import conv_lstm
from xlac.frontends.keras.layers.recurrent_cells import (
    CELLS,
    RecurrentCell,
    gru,
    lstm,
    simple,
    stacked,
)
from xlac.frontends.keras.masks import column
from xlac.frontends.keras.registry import layer
from xlac.frontends.keras.snake_case import snake_case
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan


@dataclass(frozen=True, slots=True)
class RecurrentSteps:
    """The results of a loop: outputs by time, the last states, and the last output."""

    outputs: Node  # (time, batch, …)
    states: tuple[Node, ...]
    last: Node


def _run(call: LayerCall, cell: RecurrentCell, output: int = 0) -> tuple[Node, ...]:
    """The results of a recurrent layer: outputs, and with `return_state` the last states. The
    output of a step is the state of number `output`.
    """
    if call.flag("time_major"):
        call.unsupported("time_major is not supported")
    x = call.floats(call.inputs[0]) if call.inputs else call.x
    if x.type.rank != len(cell.states[0]) + 2:
        call.fail(f"x has {len(cell.states[0]) + 2} axes, got {x.type}")
    steps = _steps(call, cell, output, cell.inputs(x), _first_states(call, cell, x))
    if call.flag("stateful"):
        for number, state in enumerate(steps.states):
            call.importer.variables.write(_state_name(call, number), state)
    every = _time_first(steps.outputs)
    if call.flag("go_backwards") and call.flag("return_sequences"):
        every = build.apply1("flip", every, axis=[1])
    result = every if call.flag("return_sequences") else steps.last
    return (result, *steps.states) if call.flag("return_state") else (result,)


def _first_states(call: LayerCall, cell: RecurrentCell, x: Node) -> list[Node]:
    """The states that the loop begins with: those given, those of the call before, or zeros."""
    initial = list(call.inputs[1:])
    given = call.kwargs.get("initial_state")
    if given is not None:
        initial += [given] if isinstance(given, Node) else list(given)
    if initial and len(initial) != len(cell.states):
        call.fail(f"it has {len(cell.states)} states, and is called with {len(initial)}")
    if initial:
        return initial
    batch = x.shape[0]
    if not call.flag("stateful"):
        return [build.full(0.0, (batch, *shape), x.type.dtype) for shape in cell.states]
    if not isinstance(batch, int):
        call.fail(f"it is stateful, and the batch {batch} is open", f"--dim {batch}=…")
    return [
        call.importer.variables.read(_state_name(call, number), Type(x.type.dtype, (batch, *shape)))
        for number, shape in enumerate(cell.states)
    ]


def _state_name(call: LayerCall, number: int) -> str:
    return f"{call.path}.state{number}"


def _steps(
    call: LayerCall, cell: RecurrentCell, output: int, x: Node, states: list[Node]
) -> RecurrentSteps:
    """Runs a cell over all steps of x (batch, time, …). At a step that a mask leaves out states
    stay, and the output is that of the step before, at first zeros, or with `zero_output_for_mask`
    always zeros.
    """
    count, mask = len(states), call.mask
    zero = call.flag("zero_output_for_mask")
    scanned, carried = [_time_first(x)], list(states)
    if mask is not None:
        if mask.type.rank not in (2, x.type.rank):
            call.fail(f"its mask is (batch, time), got {mask.type}")
        scanned.append(_time_first(column(mask, states[0].type.rank + 1)))
        carried.append(_zeros(states[output]))

    def body(*values: Node) -> tuple[Node, ...]:
        before, rest = values[: len(carried)], values[len(carried) :]
        after = cell.step(before[:count], rest[0], rest[len(scanned) :])[:count]
        if mask is None:
            return (*after, after[output])
        kept = [build.select(rest[1], new, old) for new, old in zip(after, before, strict=False)]
        otherwise = _zeros(after[output]) if zero else before[count]
        y = build.select(rest[1], after[output], otherwise)
        return (*kept, y, y)

    types = [node.type for node in carried]
    types += [node.type.with_shape(node.shape[1:]) for node in scanned]
    types += [node.type for node in cell.shared]
    loop = build.graph("step", types, body)
    back = call.flag("go_backwards")
    op = Scan(loop, scanned[0].shape[0], len(carried), len(scanned), back)
    *last, y = build.results(Node.of(op, *carried, *scanned, *cell.shared))
    return RecurrentSteps(y, tuple(last[:count]), last[output] if mask is None else last[count])


def _time_first(x: Node) -> Node:
    """(batch, time, …) as (time, batch, …), and back."""
    return build.transpose(x, (1, 0, *range(2, x.type.rank)))


def _zeros(x: Node) -> Node:
    return build.full(0.0, x.shape, x.type.dtype)


def _layer(make: Callable[[LayerCall], RecurrentCell], name: str) -> Callable[..., object]:
    def build_layer(call: LayerCall) -> tuple[Node, ...]:
        inner = call.child("cell", "cell", lambda part: False)
        return _run(call, make(inner))

    build_layer.__doc__ = f"The cell of {name} at each step."
    return build_layer


for _name, _cell in (
    ("SimpleRNN", simple),
    ("LSTM", lstm),
    ("GRU", gru),
    *((f"ConvLSTM{rank}D", conv_lstm) for rank in (1, 2, 3)),
):
    layer(_name)(_layer(_cell, _name))


def _cells(call: LayerCall) -> list[RecurrentCell]:
    """The cells of an RNN: one, or those of StackedRNNCells."""
    cell = call.get("cell")
    configs = cell if isinstance(cell, list) else [cell]
    folder = "cell/cells" if isinstance(cell, list) else ""
    try:
        layers = [layer_of(config, "its cell", call.layer.old) for config in configs]
        if len(layers) == 1 and layers[0].kind == "StackedRNNCells":
            folder = "cell/cells"
            layers = [
                layer_of(c, "its cell", call.layer.old) for c in layers[0].config.get("cells") or ()
            ]
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
    return _run(call, stacked(cells), sum(len(cell.states) for cell in cells[:-1]))


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
    ahead = call.within(first, "forward_layer", [call.x], _named("forward_"), call.mask)
    behind = call.within(second, "backward_layer", [call.x], _named("backward_"), call.mask)
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


def _named(prefix: str) -> Fits:
    return lambda name: name.startswith(prefix)
