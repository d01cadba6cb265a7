"""Branches, loops and calls."""

from __future__ import annotations

from xlac.frontends.stablehlo.importer import united
from xlac.frontends.stablehlo.ops.reductions import regrouped
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of, rebuilt
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.control import Cond, While
from xlac_sdk.dtypes import DType


@operation("while")
def while_(site: OperationSite) -> Built:
    """A while loop; values captured by its regions are carried unchanged."""
    carried = nodes_of(site.operands)
    types = [node.type for node in carried]
    condition, first = site.capturing(0, types)
    body, second = site.capturing(1, types)
    (condition, body), more = united([condition, body], [first, second])
    kept = {f"c{n}": node for n, node in enumerate(body.inputs[len(carried) :])}
    body = Graph(body.name, body.inputs, {**body.outputs, **kept})
    results = (
        build.results(Node.of(While(condition, body), *carried, *more)) if carried or more else ()
    )
    left = list(results)
    return [rebuilt(value, left) for value in site.operands]


@operation("if", "case")
def branches(site: OperationSite) -> Built:
    """`if` runs its first region when its operand is true; `case` the last if the index is out of
    range.
    """
    site.takes(1)
    index = site.real(0).node
    if site.name == "if":
        index = build.select(index, build.constant(0, DType.I32), build.constant(1, DType.I32))
    bodies = [site.capturing(number) for number in range(len(site.op.regions))]
    graphs, captured = united([graph for graph, _ in bodies], [values for _, values in bodies])
    node = Node.of(Cond(tuple(graphs)), build.cast(index, DType.I32), *captured)
    return regrouped([_like(type, graphs[0]) for type in site.results()], build.results(node))


def _like(type: object, graph: Graph) -> TypedTensor:
    """A tensor with as many parts as one of the type has, to be replaced by the caller."""
    node = next(iter(graph.outputs.values()))
    return TypedTensor(type.element, (node,) * (2 if type.element.complex else 1))  # type: ignore[attr-defined]


@operation("call", section="func")
def call(site: OperationSite) -> Built:
    """Inlines the body of the called function."""
    return called(site, site.word("callee"))


def called(site: OperationSite, name: str) -> list[Value]:
    """The results of a function for the operands of the call."""
    return site.importer.call(name, site.operands, site.fail)
