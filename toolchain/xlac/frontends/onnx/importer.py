"""Converts an ONNX graph to xlac's: maps names to values and calls the registered builder of each
node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xlac.frontends.importing.model_importer import MissingValue
from xlac.frontends.importing.operator_importer import OperatorImporter
from xlac.frontends.known import NeedsValue
from xlac.frontends.limits import check_size
from xlac.frontends.onnx import registry
from xlac.frontends.onnx.file import attributes
from xlac.frontends.onnx.file.files import Files
from xlac.frontends.onnx.file.tensors import Encoded, array_of, dense
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.ragged import lifted
from xlac.frontends.onnx.graph.scope import GraphScope
from xlac.frontends.onnx.graph.values import Coded, Optional, Ragged, Value
from xlac.frontends.onnx.problems import check_text, place, unsupported
from xlac.frontends.onnx.registry import Version
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac_sdk.source import Diagnostic, Origin, SourceError
from xlac_sdk.support.limits import within

DEPTH = 100  # the most nesting of functions and bodies
OPERATIONS = 100_000  # the most xlac nodes that one ONNX operator may become
NODES = 200_000  # the most nodes that functions and unrolled loops may become
ABSENT = Optional(None)  # the value of an optional function input that the call omits


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a tentative import: the values of the outputs, or the problems that were
    met.
    """

    values: tuple[Value, ...] | None
    problems: list[Diagnostic]
    needed: set[str]


class OnnxImporter(OperatorImporter):
    """State shared by all nodes of one model: functions, weights, known values, and problems."""

    unsupported_code, invalid_code = "XL7002", "XL7004"

    def __init__(self, model: Any, files: Files) -> None:
        super().__init__()
        self.model, self.files = model, files
        self.functions = {(domain_of(f.domain), f.name): f for f in model.functions}
        self.depth = 0
        self.built = 0
        self.scope = GraphScope(versions=versions_of(model))

    def initializers(self, graph: Any) -> None:
        """Adds the initializers of a graph to the scope. Malformed ones are reported as
        problems.
        """
        for tensor in graph.initializer:
            self._hold(tensor.name, lambda tensor=tensor: array_of(tensor, self.files))  # type: ignore[misc]
        for sparse in graph.sparse_initializer:
            self._hold(sparse.values.name, lambda sparse=sparse: dense(sparse, self.files))  # type: ignore[misc]

    def _hold(self, name: str, read: Callable[[], Array | Encoded]) -> None:
        check_text(name)
        if name in self.scope.values:
            self.problems.append(Diagnostic("XL7008", f"two values are called '{name}'"))
        try:
            self.scope.values[name] = self.scope.own(self._tensor(name, read()))
        except ShapeError as error:
            self.problems.append(
                Diagnostic("XL7004", f"initializer '{name}': {error}", hint=error.hint)
            )
            self.scope.values[name] = None

    def _tensor(self, name: str, data: Array | Encoded) -> Value:
        """Data as a constant of the graph or, if it is large, as a weight."""
        if isinstance(data, Encoded):
            return Coded(self.constant(name, data.codes), data.format)
        return self.constant(name, data)

    def run(self, nodes: Sequence[Any]) -> None:
        """Builds nodes in order. Failures are collected; nodes that depend on a failed one are
        skipped.
        """
        self.scope.awaited |= {name for node in nodes for name in node.output}
        for node in nodes:
            check_text(*node.input, *node.output, node.op_type, node.domain, node.name)
            self.built += 1
            if self.built > NODES:
                raise SourceError(
                    Diagnostic("XL7007", f"functions and loops come to more than {NODES:,} nodes")
                )
            results = self.attempt(partial(place, node), partial(self.node, node)) or ()
            for number, name in enumerate(node.output):
                if name:
                    if name in self.scope.values:
                        self.problems.append(
                            Diagnostic("XL7008", f"two values are called '{name}'")
                        )
                    self.scope.values[name] = results[number] if number < len(results) else None

    def node(self, node: Any) -> tuple[Value, ...]:
        """The values of one node's outputs."""
        domain = domain_of(node.domain)
        version = self.scope.versions.get(domain, 0)
        function = self.functions.get((domain, node.op_type))
        operator = registry.find(domain, node.op_type, version)
        if function is None and operator is None:
            function = standard_function(node, version)
            if function is None:
                raise unsupported(domain, node.op_type, version)
        inputs = tuple(self.scope.find(name) if name else None for name in node.input)
        inputs = tuple(None if i is ABSENT else i for i in inputs)
        if function is not None:
            return self.function(function, node, inputs)
        assert operator is not None
        given = attributes.read(node, self.files)
        call = OperatorCall(node.op_type, domain, version, inputs, given, tuple(node.output), self)
        results = self._built(operator, call)
        named = sum(bool(name) for name in node.output[len(results) :])
        if named:
            raise ShapeError(
                f"it gives {len(results)} results here, and {len(results) + named} are named"
            )
        return tuple(_placed(value, node, number) for number, value in enumerate(results))

    def _built(self, version: Version, call: OperatorCall) -> tuple[Value, ...]:
        if version.elementwise and any(isinstance(i, Ragged) for i in call.inputs):
            return lifted(version.builder, call)
        with within(operations=OPERATIONS):
            returned = version.builder(call)
        return returned if isinstance(returned, tuple) else (returned,)

    def function(
        self, function: Any, node: Any, inputs: Sequence[Value | None]
    ) -> tuple[Value, ...]:
        """The outputs of a function: its body built with the node's inputs and attributes."""
        scope = GraphScope(versions=versions_of(function) or self.scope.versions)
        for name, value in zip(
            function.input, [*inputs, *[None] * len(function.input)], strict=False
        ):
            scope.values[name] = value if value is not None else ABSENT
        given = {
            a.name: a
            for a in (
                *standard_defaults(function, node),
                *function.attribute_proto,
                *node.attribute,
            )
        }
        body = [attributes.bound(inner, given) for inner in function.node]
        return self.inside(scope, lambda: self.run(body), function.output)

    def inside(
        self, scope: GraphScope, fill: Callable[[], None], outputs: Sequence[str]
    ) -> tuple[Value, ...]:
        """The values that names have in a scope after `fill` has built its nodes."""
        if self.depth >= DEPTH:
            raise ShapeError(f"functions or bodies are nested more than {DEPTH} deep")
        before, self.scope = self.scope, scope
        self.depth += 1
        try:
            fill()
            return tuple(scope.find(name) for name in outputs)
        finally:
            self.scope = before
            self.depth -= 1

    def body(self, graph: Any, scope: GraphScope) -> tuple[Value, ...]:
        """The outputs of a body, whose inputs are already in the scope."""

        def fill() -> None:
            self.initializers(graph)
            self.run(graph.node)

        return self.inside(scope, fill, [info.name for info in graph.output])

    def tried(self, make: Callable[[], tuple[Value, ...]]) -> Trial:
        """Imports something tentatively: problems are returned instead of recorded."""
        problems, needed = self.problems, self.needed
        self.problems, self.needed = [], set()
        values = None
        try:
            values = make()
        except MissingValue:
            pass
        except NeedsValue as needs:
            self.needed |= needs.inputs
        finally:
            trial = Trial(
                values if not self.problems and not self.needed else None,
                self.problems,
                self.needed,
            )
            self.problems, self.needed = problems, needed
        return trial


def _placed(value: Value, node: Any, number: int) -> Value:
    """The value, with its node given the model's name and place for messages and dumps."""
    if isinstance(value, Ragged):
        return Ragged(_origin(value.node, node, number), value.counts)
    if isinstance(value, Coded):
        return Coded(_origin(value.node, node, number), value.format)
    return _origin(value, node, number) if isinstance(value, Node) else value


def _origin(value: Node, node: Any, number: int) -> Node:
    if value.origin is not None or value.op.mnemonic in ("param", "const"):
        return value
    check_size(value.shape, value.type.dtype.nbytes)
    name = node.output[number] if number < len(node.output) else ""
    return Node(value.op, value.inputs, value.types, Origin(name or node.name or node.op_type))


def domain_of(name: str) -> str:
    """A domain as the registry spells it: ONNX's default domain is ""."""
    return "" if name == "ai.onnx" else name


def versions_of(holder: Any) -> dict[str, int]:
    """The operator sets that a model or a function imports."""
    return {domain_of(entry.domain): entry.version for entry in holder.opset_import}


def standard_function(node: Any, version: int) -> Any | None:
    """The function body by which the ONNX standard defines an operator, or None."""
    import onnx

    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    return schema.function_body if schema.has_function else None  # type: ignore[attr-defined]


def standard_defaults(function: Any, node: Any) -> list[Any]:
    """The default attribute values of an operator that the standard defines as a function."""
    import onnx

    if function.domain or not function.attribute:
        return []
    try:
        schema = onnx.defs.get_schema(
            node.op_type, max(versions_of(function).values(), default=1), node.domain
        )
    except onnx.defs.SchemaError:
        return []
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]
