"""Walks over nodes up to given ones: dependencies, substitution, closures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.ops.values import param


def dependents(roots: Iterable[Node], sources: Collection[Node]) -> dict[Node, None]:
    """The nodes between sources and roots that depend on a source, sources first, in order."""
    reached: dict[Node, None] = dict.fromkeys(sources)
    for node in walk(roots, reached):
        if any(i in reached for i in node.inputs):
            reached[node] = None
    return reached


def substituted(roots: Sequence[Node], values: Mapping[Node, Node]) -> list[Node]:
    """The roots with some nodes replaced by others of their types."""
    new = dict(values)
    for node in walk(roots, values):
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
    return [new[root] for root in roots]


def closed(name: str, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """A closed graph of `outputs`, with parameters in place of `inputs`."""
    params = fresh([node.type for node in inputs])
    results = substituted(outputs, dict(zip(inputs, params, strict=True)))
    return Graph(name, tuple(params), {f"y{n}": node for n, node in enumerate(results)})


def fresh(types: Iterable[Type], prefix: str = "x") -> list[Node]:
    """New parameters."""
    return [param(f"{prefix}{n}", t.dtype, t.shape) for n, t in enumerate(types)]


def every_node(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and of the bodies inside it."""
    for node in graph.nodes():
        yield node
        for body in node.op.bodies():
            yield from every_node(body)
