"""States of recurrent layers, which are variables that persist between calls, and their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.frontends.tflite.call import TFLiteCall
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType

Step = Callable[..., tuple[Node, ...]]


def state(call: TFLiteCall, number: int) -> Node:
    """The value of a state: an input that is a variable. It starts as the number 0, which in int8
    is its zero point.
    """
    info = call.info(number)
    if call.get(number) is not None and not info.variable:
        return call.real(number)
    if call.importer.inside:
        call.fail("a state inside a loop or branch is not supported")
    if not info.variable or info.dtype is None:
        call.fail(f"state '{info.name}' is not a variable")
    variables = call.importer.variables
    if info.dtype is DType.I8 and info.quantization is not None and info.quantization.zeros.any():
        zero = build.full(int(info.quantization.zeros[0]), info.shape, info.dtype)
        variables.initial.setdefault(info.name, zero)
    return variables.read(info.name, call.type_of(info))


def keep(call: TFLiteCall, number: int, value: Node) -> None:
    """Writes a state, where it is a variable."""
    if call.info(number).variable:
        call.importer.variables.write(call.info(number).name, value)


def time_first(call: TFLiteCall, x: Node) -> Node:
    """A sequence with time first, or back as the layer has it."""
    return x if call.option("time_major") else build.transpose(x, (1, 0, 2))


def scanned(
    step: Step, states: Sequence[Node], x: Node, rest: Sequence[Node], back: bool = False
) -> tuple[Node, ...]:
    """The last states, and the first state after each step: (time, batch, units)."""

    def body(*values: Node) -> tuple[Node, ...]:
        after = step(*values)
        return *after, after[0]

    types = [*(s.type for s in states), x.type.with_shape(x.shape[1:]), *(r.type for r in rest)]
    op = Scan(build.graph("step", types, body), x.shape[0], len(states), 1, back)
    return build.results(Node.of(op, *states, x, *rest))
