"""Walks an ONNX graph and builds ours: names to values, nodes to what `ops/` registers for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xlac.frontends.onnx import attributes, registry
from xlac.frontends.onnx.call import Call
from xlac.frontends.onnx.dtypes import CODED, DTYPES
from xlac.frontends.onnx.known import DataDependent, Known, NeedsValue
from xlac.frontends.onnx.tensors import array_of, constant_of, type_name
from xlac.frontends.onnx.values import Coded, Optional, Value
from xlac.frontends.onnx.values import Sequence as Sequenced
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.source import Diagnostic, Origin, SourceError

INLINE_BYTES = 1024  # a smaller initializer is a constant of the graph, a larger one a weight beside it
DEPTH = 200  # of functions and bodies inside each other


class Poisoned(Exception):
    """A node that needs what another failed to give: told once, where it failed."""


@dataclass(slots=True)
class Scope:
    """The names visible in a graph, a body or a function."""

    values: dict[str, Value | None] = field(default_factory=dict)
    outer: Scope | None = None
    versions: Mapping[str, int] = field(default_factory=dict)  # domain -> version of its operator set

    def find(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                found = scope.values[name]
                if found is None:
                    raise Poisoned(name)
                return found
            scope = scope.outer
        raise ShapeError(f"nothing is called '{name}'")


class Importer:
    """Holds what the nodes of one model share: functions, weights, what is known, and what went wrong."""

    def __init__(self, model: Any, folder: Path | None) -> None:
        self.model, self.folder = model, folder
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.weights: dict[str, Array] = {}
        self.known = Known(self.weights)
        self.problems: list[Diagnostic] = []
        self.needed: set[str] = set()
        self.depth = 0
        self.scope = Scope(versions={_domain(entry.domain): entry.version for entry in model.opset_import})

    def initializers(self, graph: Any) -> None:
        """Puts the constants of a graph into the scope."""
        for tensor in graph.initializer:
            self.scope.values[tensor.name] = self._initializer(tensor)

    def _initializer(self, tensor: Any) -> Value:
        array = array_of(tensor, self.folder)
        if array.nbytes <= INLINE_BYTES:
            return constant_of(tensor, self.folder)
        name = tensor.name
        while name in self.weights:
            name += "'"
        self.weights[name] = array
        node = build.param(name, _dtype(array), array.shape, kind="weight")
        return Coded(node, CODED[tensor.data_type][0]) if tensor.data_type in CODED else node

    def run(self, nodes: Sequence[Any]) -> None:
        """Builds nodes in order; a mistake is noted, and what needs its result is passed over."""
        for node in nodes:
            try:
                results = self.node(node)
            except Poisoned:
                results = ()
            except NeedsValue as needs:
                self.needed |= needs.inputs
                results = ()
            except (ShapeError, DataDependent) as error:
                self.problems.append(_problem(node, error))
                results = ()
            for number, name in enumerate(node.output):
                if name:
                    self.scope.values[name] = results[number] if number < len(results) else None

    def node(self, node: Any) -> tuple[Value, ...]:
        """The values of one node's outputs."""
        domain = _domain(node.domain)
        inputs = tuple(self.scope.find(name) if name else None for name in node.input)
        version = self.scope.versions.get(domain, 0)
        function = self.functions.get((node.domain, node.op_type))
        builder = registry.find(domain, node.op_type, version or (1 if domain else 0))
        if builder is None or function is not None:
            expanded = function or standard_function(node, version)
            if expanded is None:
                raise unsupported(domain, node.op_type, version)
            return self.function(expanded, node, inputs)
        given = attributes.read(node, self.folder)
        call = Call(node.op_type, domain, version, inputs, given, tuple(node.output), self)
        found = builder(call)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(self._placed(value, node, number) for number, value in enumerate(results))

    def function(self, function: Any, node: Any, inputs: Sequence[Value | None]) -> tuple[Value, ...]:
        """The values of a function's outputs: its body with the node's inputs and attributes."""
        if self.depth >= DEPTH:
            raise ShapeError(f"functions call each other more than {DEPTH} deep")
        scope = Scope({}, None, {_domain(entry.domain): entry.version for entry in function.opset_import})
        for name, value in zip(function.input, [*inputs, *[None] * len(function.input)], strict=False):
            scope.values[name] = value if value is not None else Optional(None)
        body = [attributes.bound(inner, node, function) for inner in function.node]
        return self.inside(scope, body, function.output)

    def inside(self, scope: Scope, nodes: Sequence[Any], outputs: Sequence[str]) -> tuple[Value, ...]:
        """Builds nodes in a scope of their own and gives the values of some of its names."""
        before, self.scope = self.scope, scope
        self.depth += 1
        try:
            self.run(nodes)
            return tuple(scope.find(name) for name in outputs)
        finally:
            self.scope = before
            self.depth -= 1

    def _placed(self, value: Value, node: Any, number: int) -> Value:
        """The value with the name that the model gives it, for messages and for reading."""
        if not isinstance(value, Node) or value.origin is not None or value.op.mnemonic in ("param", "const"):
            return value
        name = node.output[number] if number < len(node.output) else ""
        return Node(value.op, value.inputs, value.types, Origin(name or node.name or node.op_type))


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _dtype(array: Array) -> Any:
    from xlac_sdk.dtypes import DType

    return DType.of(array.dtype)


def _problem(node: Any, error: Exception) -> Diagnostic:
    place = f"node '{node.name}' ({node.op_type})" if node.name else f"{node.op_type} giving '{', '.join(node.output)}'"
    if isinstance(error, DataDependent):
        return Diagnostic("XL7003", f"{place}: a size depends on data: {error}")
    code = "XL7002" if isinstance(error, Unsupported) else "XL7004"
    return Diagnostic(code, f"{place}: {error}", hint=getattr(error, "hint", ""))


class Unsupported(ShapeError):
    """An operator that no builder is registered for."""


def unsupported(domain: str, name: str, version: int) -> Unsupported:
    from difflib import get_close_matches

    known = [n for d, n in registry.OPERATORS if d == domain]
    near = get_close_matches(name, known, 3)
    full = f"{domain}.{name}" if domain else name
    hint = f"nearest: {', '.join(near)}" if near else ""
    if not version:
        return Unsupported(f"the model imports no operator set of domain '{domain or 'ai.onnx'}'", hint=hint)
    return Unsupported(f"operator {full} (operator set {version}) is not supported", hint=hint)


def standard_function(node: Any, version: int) -> Any | None:
    """The body that the standard gives an operator which it defines by others, or None."""
    import onnx

    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    return schema.function_body if schema.has_function else None  # type: ignore[attr-defined]


def typed(info: Any, symbols: Mapping[str, Dim]) -> tuple[Any, tuple[Dim, ...], str]:
    """Element type, shape and code format that a ValueInfoProto declares for a tensor. Raises SourceError."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise SourceError(Diagnostic("XL7005", f"input '{info.name}' is a {kind}: only tensors are passed in"))
    tensor = info.type.tensor_type
    dtype, code = DTYPES.get(tensor.elem_type), ""
    if tensor.elem_type in CODED:
        code, dtype = CODED[tensor.elem_type]
    if dtype is None:
        raise SourceError(Diagnostic("XL7005", f"input '{info.name}' has element type {type_name(tensor.elem_type)}"))
    if not tensor.HasField("shape"):
        raise SourceError(Diagnostic("XL7005", f"input '{info.name}' has no rank"))
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value)
        else:
            shape.append(symbols[dim.dim_param or f"{info.name}.{axis}"])
    return dtype, tuple(shape), code


__all__ = ["Importer", "Scope", "Sequenced", "typed"]
