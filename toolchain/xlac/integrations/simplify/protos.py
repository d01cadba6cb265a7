"""The names that ONNX nodes read, and the nodes that are random, so must not be folded or
merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

GRAPH, GRAPHS = 5, 10  # of AttributeProto.AttributeType

NORMAL = ("RandomNormal", "RandomNormalLike")
UNIFORM = ("RandomUniform", "RandomUniformLike")
RANDOM = frozenset({"Bernoulli", "Multinomial", *NORMAL, *UNIFORM})
"""Operators whose results differ from call to call."""


def bodies(node: Any) -> Iterator[Any]:
    """The graphs inside a node: branches and bodies of loops."""
    for attribute in node.attribute:
        if attribute.type == GRAPH:
            yield attribute.g
        elif attribute.type == GRAPHS:
            yield from attribute.graphs


def reads(node: Any) -> Iterator[str]:
    """The names of all values that a node reads, including those that its bodies capture (and names
    inside the bodies, which never occur outside).
    """
    yield from (name for name in node.input if name)
    for graph in bodies(node):
        for inner in graph.node:
            yield from reads(inner)
        yield from (info.name for info in graph.output)


def renamed(node: Any, name: Callable[[str], str]) -> None:
    """Renames the values that a node and its bodies read."""
    for number, given in enumerate(node.input):
        if given and (new := name(given)) != given:
            node.input[number] = new
    for graph in bodies(node):
        for inner in graph.node:
            renamed(inner, name)
        for info in graph.output:
            info.name = name(info.name)


class RandomNodes:
    """Finds nodes that draw random numbers, directly or in a body or function of the model."""

    def __init__(self, functions: Any) -> None:
        self._functions = {(f.domain, f.name): f for f in functions}

    def has(self, node: Any, known: Callable[[str], Any], depth: int = 0) -> bool:
        """Whether a node draws random numbers; `known` gives the value of a name that is constant,
        else None.
        """
        if node.op_type in RANDOM:
            return True
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            training = known(node.input[2]) if depth == 0 else None
            return training is None or bool(training)
        inside = [inner for graph in bodies(node) for inner in graph.node]
        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            inside += function.node
        return any(self.has(inner, known, depth + 1) for inner in inside)
