"""Branches, loops, and variables. Sub-graphs are closed: all values that they read are passed to
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.frontends.importing.captures import Captures
from xlac.frontends.known import DataDependent
from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Cond, While
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class TFLiteBody:
    """An imported sub-graph of a branch or loop: its parameters, the outer values that it captured,
    and its outputs.
    """

    params: list[Node]
    captures: Captures
    outputs: list[Node]

    @property
    def types(self) -> list[Type]:
        """The types of its outputs."""
        return [node.type for node in self.outputs]


def _body(call: TFLiteCall, option: str, values: Sequence[Node]) -> TFLiteBody:
    """The sub-graph that an option names, for values of these types."""
    graph = call.importer.file.graph(call.option(option))
    params = [build.param(f"x{n}", v.type.dtype, v.shape) for n, v in enumerate(values)]
    captures = Captures(call.importer.known)
    return TFLiteBody(params, captures, call.importer.body(graph, params, captures))


def _captured(*bodies: TFLiteBody) -> list[Node]:
    """The outer nodes that any of the bodies captured."""
    return list(dict.fromkeys(node for body in bodies for node in body.captures.inside))


@operator("IF", "IfOptions")
def if_(call: TFLiteCall) -> tuple[Node, ...]:
    """One of two sub-graphs, selected by the first input; both have the same result types."""
    importer = call.importer
    condition = build.reshape(call[0], ())
    inputs = [call[n] for n in range(1, len(call))]
    options = ("else_subgraph_index", "then_subgraph_index")
    known = importer.known.constant(condition)
    if known is not None:
        graph = importer.file.graph(call.option(options[bool(known)]))
        return tuple(importer.run(graph, inputs))
    bodies = [_body(call, option, inputs) for option in options]
    if bodies[0].types != bodies[1].types:
        raise DataDependent("its branches give results of different types")
    outside = _captured(*bodies)
    branches = tuple(
        body.captures.closed(f"branch{n}", body.params, outside, body.outputs)
        for n, body in enumerate(bodies)
    )
    index = build.cast(condition, DType.I32)
    return build.results(Node.of(Cond(branches), index, *inputs, *map(importer.captured, outside)))


@operator("WHILE", "WhileOptions")
def while_(call: TFLiteCall) -> tuple[Node, ...]:
    """Runs the body while the condition on the carried values holds."""
    importer = call.importer
    carried = list(call)
    test = _body(call, "cond_subgraph_index", carried)
    body = _body(call, "body_subgraph_index", carried)
    if body.types != [n.type for n in carried]:
        raise DataDependent("its body changes the types of what it carries")
    outside = _captured(test, body)
    rest = body.captures.parameters(outside)
    going = build.reshape(test.outputs[0], ())
    op = While(
        test.captures.closed("condition", test.params, outside, [going]),
        body.captures.closed("body", [*body.params, *rest], (), [*body.outputs, *rest]),
    )
    results = build.results(Node.of(op, *carried, *map(importer.captured, outside)))
    return results[: len(carried)]


@operator("CALL", "CallOptions")
def call_(call: TFLiteCall) -> tuple[Node, ...]:
    """Runs a sub-graph."""
    graph = call.importer.file.graph(call.option("subgraph"))
    return tuple(call.importer.run(graph, list(call)))


@operator("CALL_ONCE", "CallOnceOptions")
def call_once(call: TFLiteCall) -> tuple[Node, ...]:
    """A sub-graph that initializes variables; it has no results."""
    importer = call.importer
    before = importer.variables.all
    if before:
        call.fail("variables are initialized after they were used")
    importer.run(importer.file.graph(call.option("init_subgraph_index")), [])
    importer.variables.initial |= {
        name: variable.now for name, variable in importer.variables.all.items()
    }
    importer.variables.all = {}
    return ()


@operator("VAR_HANDLE", "VarHandleOptions")
def variable_handle(call: TFLiteCall) -> tuple[Node, ...]:
    """A handle of the variable with this container and name."""
    name = call.option("shared_name") or "variable"
    container = call.option("container")
    handle = f"{container}/{name}" if container else name
    call.importer.scope.handles[call.out().index] = handle
    return ()


def _handle(call: TFLiteCall) -> str:
    handles = call.importer.scope.handles
    index = call.info(0).index
    if index not in handles:
        call.fail(f"'{call.info(0).name}' is not the handle of a variable here")
    if call.importer.inside:
        call.fail("a variable inside a loop or branch is not supported")
    return handles[index]


@operator("READ_VARIABLE")
def read_variable(call: TFLiteCall) -> Node:
    """The value of a variable."""
    name = _handle(call)
    return call.importer.variables.read(name, call.type_of())


@operator("ASSIGN_VARIABLE")
def assign_variable(call: TFLiteCall) -> tuple[Node, ...]:
    """Assigns a new value to a variable."""
    call.importer.variables.write(_handle(call), call[1])
    return ()
