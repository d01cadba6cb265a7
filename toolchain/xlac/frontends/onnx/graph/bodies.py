"""Imports the bodies of If, Loop and Scan as closed graphs: values that they read from the
enclosing graph become inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlac.frontends.importing.captures import Captures
from xlac.frontends.onnx.graph.scope import GraphScope
from xlac.frontends.onnx.graph.values import Value, mapped, nodes
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.leaf import Param

if TYPE_CHECKING:
    from xlac.frontends.onnx.importer import OnnxImporter, Trial


@dataclass(slots=True)
class OnnxBody:
    """An imported body: its parameters, the outer values that it captured (outer node ->
    parameter), and the result of the import.
    """

    params: tuple[Node, ...]
    captures: Captures
    trial: Trial

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of the body's outputs, in order."""
        assert self.trial.values is not None
        return self.trial.values

    @property
    def plain(self) -> bool:
        """Whether the body was imported and all its outputs are plain tensors."""
        return self.trial.values is not None and all(isinstance(v, Node) for v in self.trial.values)

    def outputs(self) -> tuple[Node, ...]:
        """The output nodes of a plain body."""
        assert self.plain
        return tuple(v for v in self.values if isinstance(v, Node))


def fresh(value: Value, name: str) -> Value:
    """A value of the same kind and types made of new parameters, which are called `name` and a
    number.
    """
    return mapped(
        value,
        {
            node: build.param(f"{name}_{n}", node.type.dtype, node.shape)
            for n, node in enumerate(nodes(value))
        },
    )


def imported(importer: OnnxImporter, graph: Any, inputs: Sequence[Value]) -> OnnxBody:
    """Imports a body whose inputs have these values, which consist of parameters and constants."""
    params = tuple(node for value in inputs for node in nodes(value) if isinstance(node.op, Param))
    importer.known.outside |= dict.fromkeys(params)
    captures = Captures(importer.known)
    scope = GraphScope(outer=importer.scope, versions=importer.scope.versions, captures=captures)
    scope.values = named(graph, inputs)
    trial = importer.tried(lambda: importer.body(graph, scope))
    return OnnxBody(params, captures, trial)


def named(graph: Any, inputs: Sequence[Value]) -> dict[str, Value | None]:
    """Maps the names of a body's inputs to values. Raises ShapeError if their number differs."""
    if len(graph.input) != len(inputs):
        raise ShapeError(f"the body takes {len(graph.input)} inputs, and gets {len(inputs)}")
    return {info.name: value for info, value in zip(graph.input, inputs, strict=True)}


def inline(importer: OnnxImporter, graph: Any, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """A body's outputs, with its nodes built in the enclosing graph."""
    scope = GraphScope(outer=importer.scope, versions=importer.scope.versions)
    scope.values = named(graph, inputs)
    return importer.body(graph, scope)
