"""The user's own operations: a reference graph of simpler operations, and kernels that a backend
may use instead.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op, ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Call
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.tensor.leaf import Param
from xlac.ops.values import Weak
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.calls import positional
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.custom.gradient import gradient
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import Evaluator, as_node
from xlac.spec.elaborate.op_node import inputs
from xlac.spec.elaborate.operations import Operand
from xlac.spec.elaborate.scope import Bundle, Frame, Scope, Value
from xlac.spec.elaborate.type_text import type_parts
from xlac.spec.kernels.operation import operation
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry
from xlac.spec.text.floats import check_room
from xlac.spec.text.spans import CallSpans, NodeSpans
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

if TYPE_CHECKING:
    from xlac_sdk.source import Span


def custom_node(
    context: Elaboration, scope: Scope, name: str, spec: schema.OpNode, path: str, place: Place
) -> Value:
    """`{op: fast_gelu, in: x}`. Raises Fault or Poisoned."""
    entry = context.custom[name]
    given: dict[str, Any] = {}
    for key, value in spec.attributes.items():
        if key not in entry.spec.params:
            raise Fault(
                "XL2005",
                f"unknown key {key!r} for {name}",
                place.at(key).key,
                nearest(key, [*entry.spec.params, "in"]),
            )
        given[key] = arithmetic.value(value, scope.constants, place.at(key))
    operands = inputs(context, scope, spec.inputs, list(entry.spec.inputs), name, path, place)
    return use(context, scope, name, operands, given, path, NodeSpans(place, spec), place.key)


def call_operator(evaluator: Evaluator, node: ast.Call, entry: SpecEntry[schema.OpSpec]) -> Value:
    """`fast_gelu(x)` in an expression. Raises Fault or Poisoned."""
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    names = list(entry.spec.inputs)
    fields = list(entry.spec.params)
    operands, parts, given, where = positional(
        evaluator, node, len(names), False, fields, len(names)
    )
    for keyword in node.keywords:
        key = keyword.arg or ""
        if key not in fields or key in given:
            raise evaluator.fault(
                keyword, "XL2005", f"unknown attribute {key!r} for {name}", nearest(key, fields)
            )
        given[key], where[key] = evaluator.attribute(keyword.value), keyword.value
    spans = CallSpans(evaluator.place, evaluator.expression, node, parts, where)
    return use(
        evaluator.context,
        evaluator.scope,
        name,
        operands,
        given,
        evaluator.path,
        spans,
        evaluator.span(node),
    )


def use(
    context: Elaboration,
    scope: Scope,
    name: str,
    operands: Sequence[Operand],
    given: Mapping[str, Any],
    path: str,
    spans: Any,
    at: Span,
) -> Value:
    """The reference graph inline, or a node that calls it where there are kernels for it. Raises
    Fault or Poisoned.
    """
    entry = context.custom[name]
    spec, place = entry.spec, entry.place
    if len(operands) != len(spec.inputs):
        plural = "" if len(spec.inputs) == 1 else "s"
        takes = f"{name} takes {len(spec.inputs)} input{plural} ({', '.join(spec.inputs)})"
        raise Fault("XL2008", f"{takes}, and got {len(operands)}", spans.whole())
    if (marker := f"op {name}") in context.stack:
        raise Fault("XL2010", f"operation {name!r} uses itself", place.key)
    constants = scope.constants.extended(parameters(name, entry, scope, given, spans))
    met = Met()
    nodes = matched(name, entry, operands, constants, met, spans)
    inline = not spec.kernels and spec.gradient is None
    inner = Scope(scope.frame if inline else Frame(), constants.extended({}, met.sizes), f"{path}.")
    values = nodes
    if not inline:
        values = [
            Node.of(Param(k, n.type), origin=n.origin)
            for k, n in zip(spec.inputs, nodes, strict=True)
        ]
    inner.values.update(zip(spec.inputs, values, strict=True))
    context.stack.append(marker)
    context.used.add(marker)
    before = len(context.weights)
    try:
        elaborate(context, inner, entries_at(spec.expr, place.at("expr")))
    finally:
        context.stack.pop()
    if len(context.weights) > before:
        raise Fault("XL2012", f"operation {name!r} learns tensors; use a block for that", place.key)
    results = outputs(context, inner, name, entry, constants, met, path)
    if not inline:
        body = Graph(name, tuple(values), results)
        op: Op = Call(body, name)
        if texts := context.kernels.get(name):
            op = operation(name, entry, texts, body, constants, (met.sizes, met.shapes))
        if spec.gradient is not None:
            body = body if not texts else called(context, op, body, Origin(path, at))
            op = CustomGradient(body, gradient(context, entry, body, inner, path), name)
        try:
            result_values = build.results(Node.of(op, *nodes))
        except ShapeError as error:
            raise Fault("XL2009", f"{name}: {error}", spans.whole()) from None
        context.stamp(result_values, Origin(path, at))
        results = dict(zip(results, result_values, strict=True))
    values = list(results.values())
    return values[0] if len(values) == 1 else Bundle(dict(results), None, tuple(values))


def called(context: Elaboration, op: Op, body: Graph, origin: Origin) -> Graph:
    """A body that applies the operation only, with the results of another body."""
    calls = build.results(Node.of(op, *body.inputs))
    context.stamp(calls, origin)
    return Graph(body.name, body.inputs, dict(zip(body.outputs, calls, strict=True)))


@dataclass
class Met:
    """The values bound to names in declared types: sizes, and for starred names shapes."""

    sizes: dict[str, Dim] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)


def parameters(
    name: str, entry: SpecEntry[schema.OpSpec], scope: Scope, given: Mapping[str, Any], spans: Any
) -> dict[str, Any]:
    """The spec's parameters, shadowed by those of the operation. Raises Fault."""
    params = dict(scope.constants.params)
    for key, default in entry.spec.params.items():
        if key not in given and default is None:
            raise Fault("XL2007", f"{name} needs {key!r}", spans.whole())
        params[key] = given.get(key, default)
    return params


def matched(
    name: str,
    entry: SpecEntry[schema.OpSpec],
    operands: Sequence[Operand],
    constants: Constants,
    met: Met,
    spans: Any,
) -> list[Node]:
    """The operands as nodes of the declared types. Raises Fault where one does not fit."""
    wanted = entry.spec.inputs
    nodes: list[Node] = []
    for number, (operand, (key, text)) in enumerate(zip(operands, wanted.items(), strict=True)):
        pattern = TypePattern(text, constants, entry.place.at("inputs", key))
        if not isinstance(operand, Node | Weak):
            check_room(operand, pattern.dtype or DType.F32, spans.operand(number))
        known = operand if isinstance(operand, Node) else None
        node = known or build.as_node(operand, pattern.dtype)
        if (wrong := pattern.match(node.type, met.sizes, met.shapes)) is not None:
            problem = f"{name}: input {key!r} is {text}, and got {node.type}: {wrong}"
            raise Fault("XL2009", problem, spans.operand(number))
        nodes.append(node)
    return nodes


def outputs(
    context: Elaboration,
    inner: Scope,
    name: str,
    entry: SpecEntry[schema.OpSpec],
    constants: Constants,
    met: Met,
    path: str,
) -> dict[str, Node]:
    """The results of `expr`, of the declared types. Raises Fault or Poisoned."""
    results: dict[str, Node] = {}
    for key, text in entry.spec.outputs.items():
        spot = entry.place.at("outputs", key)
        if key not in inner.values:
            raise Fault("XL2002", f"expr gives no {key!r}", spot.key, nearest(key, inner.values))
        if (value := inner.values[key]) is None:
            raise Poisoned
        node = as_node(context, value, key, path, spot)
        wrong = TypePattern(text, constants, spot).match(node.type, met.sizes, met.shapes)
        if wrong is not None:
            problem = (
                f"{name}: output {key!r} is declared {text}, and expr gives {node.type}: {wrong}"
            )
            raise Fault("XL2013", problem, spot.span)
        results[key] = node
    if not results:
        raise Fault("XL2012", f"operation {name!r} has no outputs", entry.place.key)
    return results


class TypePattern:
    """A declared type such as `f32[M, 4]` or `f32[*S]`, whose names are bound to sizes."""

    def __init__(self, text: str, constants: Constants, place: Place) -> None:
        self.constants, self.place = constants, place
        self.dtype, self.extents, self.offset = type_parts(text, constants, place)

    def match(self, type: Type, sizes: dict[str, Dim], shapes: dict[str, Shape]) -> str | None:
        """Binds names to the sizes of a type; returns what does not fit, or None."""
        if type.dtype is not self.dtype:
            return f"expected {self.dtype}"
        if self.extents is None:
            return None if not type.shape else "expected a scalar"
        expression, trees = self.extents
        starred = [i for i, tree in enumerate(trees) if isinstance(tree, ast.Starred)]
        if len(starred) > 1:
            raise Fault("XL1018", "a type has at most one '*'", self.place.span)
        fixed = len(trees) - len(starred)
        if type.rank < fixed or (not starred and type.rank != fixed):
            return f"expected rank {fixed}" + (" or more" if starred else "")
        at = 0
        for tree in trees:
            if isinstance(tree, ast.Starred):
                name = tree.value.id if isinstance(tree.value, ast.Name) else "S"
                part = type.shape[at : at + type.rank - fixed]
                at += len(part)
                if shapes.setdefault(name, part) != part:
                    return f"*{name} is {list(shapes[name])} elsewhere"
                continue
            size = type.shape[at]
            at += 1
            if isinstance(tree, ast.Name) and tree.id.isidentifier() and not self._known(tree.id):
                if sizes.setdefault(tree.id, size) != size:
                    return f"{tree.id} is {sizes[tree.id]} elsewhere"
                continue
            inside = self.constants.extended({}, sizes)
            wanted = type_text.extent(expression, tree, inside, self.place, self.offset)
            if wanted != size:
                return f"expected {wanted} on axis {at - 1}"
        return None

    def _known(self, name: str) -> bool:
        return name in self.constants.params or name.startswith("$")
