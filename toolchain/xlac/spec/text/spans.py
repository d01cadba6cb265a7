"""Places of the parts of a node, whether a mapping or a call in an expression, for messages."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlac.ir.op import ShapeError
from xlac.spec.report import Fault, Place
from xlac.spec.schema import schema
from xlac.spec.text.expression import Parsed
from xlac_sdk.source import Span


def shape_fault(error: ShapeError, what: str, spans: Any) -> Fault:
    """A ShapeError as a Fault at the operand or attribute that it is about."""
    span = spans.whole()
    if error.operand is not None:
        span = spans.operand(error.operand)
    elif error.attribute:
        span = spans.attribute(error.attribute)
    message = (
        str(error)
        if str(error).startswith(f"{what} ")
        else f"{what}: {str(error).removeprefix(f'{what}: ')}"
    )
    return Fault("XL2009", message, span, error.hint)


@dataclass(frozen=True)
class NodeSpans:
    """Places of the parts of a node `{op: …, in: …}`."""

    place: Place
    spec: schema.OpNode | schema.BlockNode

    def whole(self) -> Span:
        """The key of the node."""
        return self.place.key

    def name(self) -> Span:
        """The operation or block."""
        return self.place.at("op" if isinstance(self.spec, schema.OpNode) else "block").span

    def attribute(self, name: str, path: tuple[str | int, ...] = ()) -> Span:
        """The value of an attribute, or a part of it; the node's key where the attribute is not
        written.
        """
        at = self.place.at(name, *path)
        if (
            at.source.find(at.path[: len(self.place.path) + 1])[1]
            != at.path[: len(self.place.path) + 1]
        ):
            return self.place.key
        return at.span

    def attribute_key(self, name: str) -> Span:
        """The key of an attribute."""
        return self.place.at(name).key

    def operand(self, number: int) -> Span:
        """The operand with this number."""
        inputs = self.spec.inputs
        if isinstance(inputs, list) and number < len(inputs):
            return self.place.at("in", number).span
        if isinstance(inputs, dict) and number < len(inputs):
            return self.place.at("in", list(inputs)[number]).span
        return self.place.at("in").span


@dataclass(frozen=True)
class CallSpans:
    """Places of the parts of a call in an expression."""

    place: Place
    expression: Parsed
    node: ast.expr
    operands: Sequence[ast.expr] = ()
    attributes: dict[str, ast.expr] | None = None

    def _span(self, node: ast.AST) -> Span:
        return self.place.inside(*self.expression.place(node))

    def whole(self) -> Span:
        """The whole call."""
        return self._span(self.node)

    def name(self) -> Span:
        """The function's name."""
        return self._span(self.node.func if isinstance(self.node, ast.Call) else self.node)

    def operand(self, number: int) -> Span:
        """The operand with this number."""
        return self._span(self.operands[number]) if number < len(self.operands) else self.whole()

    def attribute(self, name: str, path: tuple[str | int, ...] = ()) -> Span:
        """The value of an attribute, or a part of it."""
        tree = (self.attributes or {}).get(name)
        for key in path:
            if (
                isinstance(tree, ast.List | ast.Tuple)
                and isinstance(key, int)
                and key < len(tree.elts)
            ):
                tree = tree.elts[key]
        return self._span(tree) if tree is not None else self.whole()

    attribute_key = attribute
