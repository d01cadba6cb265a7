"""Branches, loops and calls."""

from __future__ import annotations

from xlac.frontends.stablehlo.importer import united
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.syntax import TensorType, TupleType, ValueType
from xlac.frontends.stablehlo.values import Several, Token, TypedTensor, Value, nodes_of, rebuilt
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.control import Cond, While
from xlac_sdk.dtypes import DType


@operation("while")
def while_(site: OperationSite) -> Built:
    """A while loop; values captured by its regions are carried unchanged, and so is what orders
    side effects.
    """
    carried = list(nodes_of(site.operands))
    types = [node.type for node in carried]
    parts = [site.region(0, types), site.region(1, types)]
    graphs, acts = [part.graph for part in parts], any(part.acts for part in parts)
    if acts:
        graphs = [part.threaded(len(carried)) for part in parts]
        graphs[0] = _deciding(graphs[0], parts[0].acts)
        carried.append(site.importer.effect or build.constant(False))
    (condition, body), more = united(graphs, [part.captured for part in parts])
    kept = {f"c{n}": node for n, node in enumerate(body.inputs[len(carried) :])}
    body = Graph(body.name, body.inputs, {**body.outputs, **kept})
    results = (
        build.results(Node.of(While(condition, body), *carried, *more)) if carried or more else ()
    )
    left = list(results)
    if acts:
        site.importer.effect = left.pop(len(carried) - 1)
    return [rebuilt(value, left) for value in site.operands]


def _deciding(condition: Graph, acts: bool) -> Graph:
    """A condition that follows its own side effects: what orders them is always false."""
    flag, effect = condition.outputs.values()
    output = build.apply1("or", flag, effect) if acts else flag
    return Graph(condition.name, condition.inputs, {"y0": output})


@operation("if", "case")
def branches(site: OperationSite) -> Built:
    """`if` runs its first region when its operand is true; `case` the last if the index is out of
    range.
    """
    site.takes(1)
    index = site.real(0).node
    if site.name == "if":
        index = build.select(index, build.constant(0, DType.I32), build.constant(1, DType.I32))
    parts = [site.region(number) for number in range(len(site.op.regions))]
    bodies, acts = [part.graph for part in parts], any(part.acts for part in parts)
    first = []
    if acts:
        bodies = [part.threaded(0) for part in parts]
        first.append(site.importer.effect or build.constant(False))
    graphs, captured = united(bodies, [part.captured for part in parts])
    results: list[Node] = []
    if graphs[0].outputs:  # else nothing happens in any of them
        node = Node.of(Cond(tuple(graphs)), build.cast(index, DType.I32), *first, *captured)
        results = list(build.results(node))
    if acts:
        site.importer.effect = results.pop()
    return [_taken(type, results) for type in site.op.types]


def _taken(type: ValueType, results: list[Node]) -> Value:
    """A value of a type, from results of a node, which are taken from the front of the list."""
    if isinstance(type, TupleType):
        return Several(tuple(_taken(item, results) for item in type.items))
    if not isinstance(type, TensorType):
        return Token()
    count = 2 if type.element.complex else 1
    if len(results) < count:
        raise ValueError("its regions give fewer tensors than the text says")
    return TypedTensor(type.element, tuple(results.pop(0) for _ in range(count)))


@operation("call", section="func")
def call(site: OperationSite) -> Built:
    """Inlines the body of the called function."""
    return called(site, site.word("callee"))


def called(site: OperationSite, name: str) -> list[Value]:
    """The results of a function for the operands of the call."""
    return site.importer.call(name, site.operands, site.fail)
