"""Shrinks a failing graph: fewer outputs, nodes replaced by their values, shorter axes, as long as
it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, attributes, frozen_array
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Param


@dataclass(frozen=True, slots=True, eq=False)
class FailingCase:
    """A graph with values for its inputs; `weights` has the values of its weight parameters."""

    graph: Graph
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]

    @property
    def size(self) -> tuple[int, int]:
        """The measure that shrinks: operations, and total elements."""
        nodes = list(self.graph.nodes())
        return sum(bool(n.inputs) for n in nodes), sum(t.nbytes for n in nodes for t in n.results)


Fails = Callable[[FailingCase], bool]


def reduce(
    case: FailingCase,
    fails: Fails,
    tell: Callable[[str], None] = lambda line: None,
    attempts: int = 400,
) -> FailingCase:
    """The smallest failing case that greedy steps find within `attempts`. `case` must fail."""
    left = attempts
    progress = True
    while progress and left:
        progress = False
        for step in (fewer_outputs, earlier_outputs, values, bypasses, constants, shorter_axes):
            for candidate in step(case):
                if not left:
                    break
                if candidate.size >= case.size and step is not constants:
                    continue
                left -= 1
                if fails(candidate):
                    tell(f"{step.__name__.replace('_', ' ')}: {candidate.size[0]} operations")
                    case, progress = candidate, True
                    break
    return case


def fewer_outputs(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with one of the outputs."""
    if len(case.graph.outputs) > 1:
        for name, node in case.graph.outputs.items():
            yield trimmed(case, Graph(case.graph.name, case.graph.inputs, {name: node}))


def earlier_outputs(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with an inner node as the only output, those in the middle first."""
    nodes = [n for n in case.graph.nodes() if n.inputs and isinstance(n.types, Type)]
    stride = max(1, len(nodes) // 2)
    seen: set[int] = set()
    while stride:
        for place in range(stride - 1, len(nodes) - 1, stride):
            if place not in seen:
                seen.add(place)
                yield trimmed(case, Graph(case.graph.name, case.graph.inputs, {"y": nodes[place]}))
        stride //= 2


def values(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with a node replaced by an input that has its value."""
    known = computed(case)
    for node in reversed([n for n in case.graph.nodes() if n.inputs and isinstance(n.types, Type)]):
        name = f"v{sum(n.startswith('v') for n in case.inputs)}"
        while name in case.inputs:
            name += "_"
        param = Node.of(Param(name, node.type))
        changed = case.graph.rewrite(lambda n, node=node, param=param: param if n is node else n)  # type: ignore[misc]
        if changed is not case.graph and param not in changed.outputs.values():
            graph = Graph(changed.name, (*changed.inputs, param), changed.outputs)
            array = np.asarray(known[node][0]).astype(node.type.dtype.numpy)
            yield trimmed(replace(case, inputs={**case.inputs, name: array}), graph)


def bypasses(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with a node replaced by one of its inputs of the same type."""
    for node in case.graph.nodes():
        for instead in node.inputs:
            if instead.types == node.types:
                graph = case.graph.rewrite(
                    lambda n, node=node, instead=instead: instead if n is node else n  # type: ignore[misc]
                )
                yield trimmed(case, graph)


def constants(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with a small input or weight replaced by a constant."""
    for node in case.graph.nodes():
        if isinstance(node.op, Param) and node.type.nbytes <= 64 and len(case.graph.inputs) > 1:
            array = (case.weights if node.op.kind == "weight" else case.inputs)[node.op.name]
            const = Node.of(Const(frozen_array(array)))
            graph = case.graph.rewrite(lambda n, node=node, const=const: const if n is node else n)  # type: ignore[misc]
            yield trimmed(case, graph)


def shorter_axes(case: FailingCase) -> Iterator[FailingCase]:
    """Cases with every axis of one size made shorter; those that do not type check are dropped."""
    extents = {
        s
        for n in case.graph.nodes()
        for t in n.results
        for s in t.shape
        if isinstance(s, int) and s > 1
    }
    for size in sorted(extents, reverse=True):
        for smaller in (1, 2, 3, size // 2):
            if smaller < size:
                try:
                    yield resized(case, size, smaller)
                except (ValueError, TypeError, IndexError, ZeroDivisionError):
                    continue


def resized(case: FailingCase, size: int, smaller: int) -> FailingCase:
    """The case with one size made smaller everywhere; arrays are cut."""
    new: dict[Node, Node] = {}
    inputs, weights = dict(case.inputs), dict(case.weights)

    def scaled(value: object) -> object:
        if isinstance(value, Type):
            return value.with_shape(tuple(smaller if s == size else s for s in value.shape))
        if isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
            return tuple(smaller if v == size else v for v in value)
        if isinstance(value, np.ndarray):
            return frozen_array(
                value[tuple(slice(0, smaller if s == size else s) for s in value.shape)]
            )
        return value

    for node in (*case.graph.inputs, *case.graph.nodes()):
        if node in new:
            continue
        op = replace(node.op, **{k: scaled(v) for k, v in attributes(node.op).items()})
        given = tuple(new[i] for i in node.inputs)
        if isinstance(op, Pick):
            new[node] = Node(op, given, given[0].results[op.index], node.origin)
        else:
            new[node] = Node.of(op, *given, origin=node.origin)
        if isinstance(node.op, Param):
            arrays = weights if node.op.kind == "weight" else inputs
            arrays[node.op.name] = np.asarray(scaled(np.asarray(arrays[node.op.name])), order="C")
    outputs = {name: new[node] for name, node in case.graph.outputs.items()}
    return FailingCase(
        Graph(case.graph.name, tuple(new[i] for i in case.graph.inputs), outputs), inputs, weights
    )


def trimmed(case: FailingCase, graph: Graph) -> FailingCase:
    """The case with another graph, without the inputs that this does not read."""
    used = set(graph.nodes())
    kept = tuple(node for node in graph.inputs if node in used)
    names = {node.op.name for node in kept if isinstance(node.op, Param)}
    inputs = {name: array for name, array in case.inputs.items() if name in names}
    return FailingCase(Graph(graph.name, kept, graph.outputs), inputs, case.weights)


def computed(case: FailingCase) -> dict[Node, tuple[Array, ...]]:
    """The values of all nodes."""
    values: dict[Node, tuple[Array, ...]] = {}
    for node in case.graph.nodes():
        if isinstance(node.op, Param):
            values[node] = (
                np.asarray(
                    (case.weights if node.op.kind == "weight" else case.inputs)[node.op.name]
                ),
            )
        else:
            values[node] = evaluate(node, [values[i] for i in node.inputs])
    return values
