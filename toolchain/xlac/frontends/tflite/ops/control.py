"""Branches, loops, and variables. Sub-graphs are closed: all that they read is passed to them."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.known import DataDependent
from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.control import Cond, While
from xlac_sdk.dtypes import DType


def _closed(
    name: str, params: Sequence[Node], rest: Sequence[Node], outputs: Sequence[Node]
) -> Graph:
    return Graph(name, (*params, *rest), {f"y{n}": node for n, node in enumerate(outputs)})


def _fresh(values: Sequence[Node]) -> list[Node]:
    return [build.param(f"x{n}", v.type.dtype, v.shape) for n, v in enumerate(values)]


def _unused(outside: Sequence[Node], captured: dict[Node, Node]) -> list[Node]:
    """The parameters of a body for the nodes `outside`, of which it reads those captured."""
    return [
        captured.get(node) or build.param(f"unused{n}", node.type.dtype, node.shape)
        for n, node in enumerate(outside)
    ]


@operator("IF", "IfOptions")
def if_(call: TFLiteCall) -> tuple[Node, ...]:
    """One of two sub-graphs, as the first input says; both give the same types."""
    importer = call.importer
    condition = build.reshape(call[0], ())
    inputs = [call[n] for n in range(1, len(call))]
    graphs = [
        importer.file.graph(call.option(f"{name}_subgraph_index")) for name in ("else", "then")
    ]
    known = importer.known.constant(condition)
    if known is not None:
        return tuple(importer.run(graphs[bool(known)], inputs))
    made = []
    for graph in graphs:
        params, captured = _fresh(inputs), dict[Node, Node]()
        made.append((params, captured, importer.body(graph, params, captured)))
    if [n.type for n in made[0][2]] != [n.type for n in made[1][2]]:
        raise DataDependent("its branches give results of different types")
    outside = list(dict.fromkeys(node for _, captured, _ in made for node in captured))
    branches = tuple(
        _closed(f"branch{n}", params, _unused(outside, captured), outputs)
        for n, (params, captured, outputs) in enumerate(made)
    )
    index = build.cast(condition, DType.I32)
    return build.results(Node.of(Cond(branches), index, *inputs, *map(importer.captured, outside)))


@operator("WHILE", "WhileOptions")
def while_(call: TFLiteCall) -> tuple[Node, ...]:
    """The body again and again as long as the condition of the carried values holds."""
    importer = call.importer
    carried = list(call)
    graphs = [
        importer.file.graph(call.option(f"{name}_subgraph_index")) for name in ("cond", "body")
    ]
    made = []
    for graph in graphs:
        params, captured = _fresh(carried), dict[Node, Node]()
        made.append((params, captured, importer.body(graph, params, captured)))
    if [n.type for n in made[1][2]] != [n.type for n in carried]:
        raise DataDependent("its body changes the types of what it carries")
    outside = list(dict.fromkeys(node for _, captured, _ in made for node in captured))
    (test_in, test_captured, test), (body_in, body_captured, body) = made
    going = build.reshape(test[0], ())
    rest = _unused(outside, body_captured)
    op = While(
        _closed("condition", test_in, _unused(outside, test_captured), [going]),
        _closed("body", body_in, rest, [*body, *rest]),
    )
    found = build.results(Node.of(op, *carried, *map(importer.captured, outside)))
    return found[: len(carried)]


@operator("CALL", "CallOptions")
def call_(call: TFLiteCall) -> tuple[Node, ...]:
    """A sub-graph."""
    graph = call.importer.file.graph(call.option("subgraph"))
    return tuple(call.importer.run(graph, list(call)))


@operator("CALL_ONCE", "CallOnceOptions")
def call_once(call: TFLiteCall) -> tuple[Node, ...]:
    """A sub-graph that gives variables their initial values; it has no results."""
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
        call.fail(f"'{call.info(0).name}' is no handle of a variable here")
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
    """Gives a variable another value."""
    call.importer.variables.write(_handle(call), call[1])
    return ()
