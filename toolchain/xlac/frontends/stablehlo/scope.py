"""Scopes of names, and how a region captures values of enclosing regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlac.frontends.stablehlo.text.syntax import Operation
from xlac.frontends.stablehlo.values import Value, nodes_of, rebuilt
from xlac.ir.dims import UNBOUNDED, Dim
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.importer import StablehloImporter


class Unequal(Exception):
    """Two symbolic sizes that the program requires to be equal."""

    def __init__(self, first: Dim, second: Dim) -> None:
        super().__init__(f"{first} is {second}")
        self.first, self.second = first, second


@dataclass(frozen=True, slots=True)
class AssertedRange:
    """A range of a symbol that the program asserts."""

    name: str
    low: int = 0
    high: int = UNBOUNDED
    multiple_of: int = 1


class RegionScope:
    """The names defined in a region, with the enclosing region as parent."""

    def __init__(self, importer: StablehloImporter, parent: RegionScope | None = None) -> None:
        self.importer, self.parent = importer, parent
        self.values: dict[str, Value] = {}

    def define(self, name: str, value: Value, at: int) -> None:
        """Defines a name. Raises SourceError if it is taken."""
        if name in self.values:
            self.importer.source.fail("XL7204", f"{name[:60]} is defined twice", at)
        self.values[name] = value

    def find(self, name: str, op: Operation) -> Value:
        """The value of a name. Raises SourceError."""
        value = self.seek(name)
        if value is None and name.endswith("#0"):
            value = self.seek(name[:-2])
        if value is None:
            self.importer.source.fail("XL7204", f"{name[:60]} is not defined here", op.at, op.width)
        return value

    def seek(self, name: str) -> Value | None:
        """The value of a name in this or an enclosing scope, or None."""
        value = self.values.get(name)
        return self.parent.seek(name) if value is None and self.parent else value


class Closed(RegionScope):
    """The scope of a closed graph: outside values become inputs, except constants."""

    def __init__(self, importer: StablehloImporter, outside: RegionScope) -> None:
        super().__init__(importer)
        self.outside = outside
        self.captured: list[Value] = []
        self.inputs: list[Node] = []

    def parameter(self, type: Type) -> Node:
        """Adds an input to the graph."""
        node = Node.of(Param(f"x{len(self.inputs)}", type))
        self.inputs.append(node)
        return node

    def capture(self, value: Value) -> Value:
        """Captures an outside value as an input."""
        self.captured.append(value)
        inner = []
        for node in nodes_of([value]):
            inner.append(self.parameter(node.type))
            self.importer.known.outside[inner[-1]] = node
        return rebuilt(value, inner)

    def seek(self, name: str) -> Value | None:
        """The value of a name here, or an outside value captured; None if there is neither."""
        value = self.values.get(name)
        if value is None:
            value = self.outside.seek(name)
            if value is not None:
                if not all(map(is_constant, nodes_of([value]))):
                    value = self.capture(value)
                self.values[name] = value
        return value


def is_constant(node: Node) -> bool:
    """Whether a closed graph can contain the node itself: a constant, or a broadcast of one."""
    return isinstance(node.op, Const) or (
        isinstance(node.op, Broadcast) and isinstance(node.inputs[0].op, Const)
    )
