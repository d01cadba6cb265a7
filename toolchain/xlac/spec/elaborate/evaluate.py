"""Evaluates the tree of an expression to nodes: names, operators and comparisons."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops.values import Weak
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import parsed
from xlac.spec.elaborate.calls import call
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.number_list import list_parameter, written_list
from xlac.spec.elaborate.operations import Operand, apply
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value, tensor
from xlac.spec.elaborate.subscripts import subscript
from xlac.spec.report import Fault, Place
from xlac.spec.text.expression import Parsed, braced
from xlac.spec.text.floats import check_room
from xlac.spec.text.grammar import dotted
from xlac.spec.text.spans import CallSpans
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin, Span

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "rem", ast.Pow: "pow",
    ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl",
    ast.RShift: "shr", ast.USub: "neg", ast.Not: "logical_not", ast.Invert: "not",
    ast.And: "logical_and", ast.Or: "logical_or",
}  # fmt: skip
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}

Number = int | float | bool | Weak


class Evaluator:
    """Evaluates one expression of an entry."""

    def __init__(
        self, context: Elaboration, scope: Scope, expression: Parsed, path: str, place: Place
    ) -> None:
        self.context, self.scope = context, scope
        self.expression, self.path, self.place = expression, path, place

    def span(self, node: ast.AST) -> Span:
        """The place of a part of the expression."""
        return self.place.inside(*self.expression.place(node))

    def fault(self, node: ast.AST, code: str, message: str, hint: str = "") -> Fault:
        """A Fault at a part of the expression."""
        return Fault(code, message, self.span(node), hint)

    def value(self, node: ast.expr) -> Value | Number:
        """The value of a tree; numbers stay Python numbers, and lists of them weak, so that they
        take the type of their operands.
        """
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.List():
                return written_list(self, node)
            case ast.Call():
                if (inner := braced(node)) is not None:
                    return self.parameter(inner)
                return call(self, node)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self.operator(node, _OPERATORS[type(node.op)], [node.left, node.right])
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand)
            case ast.UnaryOp():
                return self.operator(node, _OPERATORS[type(node.op)], [node.operand])
            case ast.BoolOp():
                value = self.value(node.values[0])
                for right in node.values[1:]:
                    value = self.apply(
                        node, _OPERATORS[type(node.op)], [value, self.value(right)], [node, right]
                    )
                return value
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp() if not (self.is_value(node.test) or isinstance(node.test, ast.List)):
                yes, no = self.value(node.body), self.value(node.orelse)  # both are checked
                return yes if self.number(node.test) else no
            case ast.IfExp():
                parts = [node.test, node.body, node.orelse]
                return self.apply(node, "select", [self.operand(part) for part in parts], parts)
            case ast.Subscript():
                return subscript(self, node)
        raise self.fault(node, "XL1017", "this is not part of the expression language here")

    def operand(self, node: ast.expr) -> Operand:
        """A part as an operand: copies are stacked, and a bundle gives its main result."""
        value = self.value(node)
        return self.tensor(value, node) if isinstance(value, Bundle | Copies) else value

    def tensor(self, value: Value, node: ast.expr) -> Node:
        """Copies stacked, or the main result of a bundle, as a node."""
        return tensor(
            value,
            dotted(node) or "this",
            self.place,
            stacker(self.context, self.path, self.span(node)),
            self.expression.place(node),
        )

    def parameter(self, node: ast.expr) -> Number:
        """The value of `$name`, or of what is inside `${…}`: a number, or a list of them."""
        value = arithmetic.compute(self.expression, self.scope.constants, self.place, node)
        return list_parameter(self, node, value) if isinstance(value, list) else self.number(node)

    def number(self, node: ast.expr) -> int | float | bool:
        """A part evaluated at build time. Raises Fault for an open size."""
        number = arithmetic.compute(self.expression, self.scope.constants, self.place, node)
        if isinstance(number, Sym):
            raise self.fault(
                node,
                "XL2017",
                f"the size {number} is symbolic, and not a number here",
                "give it with --dim, or use it in shapes only",
            )
        if not isinstance(number, int | float):
            raise self.fault(node, "XL2017", f"expected a number, found {number!r}")
        return number

    def name(self, node: ast.expr) -> Value | Number:
        """The value of a name: of the graph, a parameter or size, true, false, inf or nan."""
        name = dotted(node) or ""
        if name.startswith("$"):
            return self.parameter(node)
        if not self.scope.sees(name):
            if name in ("true", "false", "inf", "nan"):
                return name == "true" if name in ("true", "false") else float(name)
            if name in self.scope.constants.dims:
                return self.number(node)
            if name in self.scope.constants.params:
                raise self.fault(
                    node, "XL2002", f"unknown value {name!r}", f"the parameter is written ${name}"
                )
        return self.scope.lookup(name, self.place, self.expression.place(node))

    def operator(self, node: ast.expr, name: str, parts: list[ast.expr]) -> Value | Number:
        """An operator, evaluated at build time where no operand is a node."""
        operands = [self.operand(part) for part in parts]
        if not any(isinstance(o, Node | Weak) for o in operands) and name != "matmul":
            return self.number(node)
        return self.apply(node, name, operands, parts)

    def compare(self, node: ast.Compare) -> Value | Number:
        """A chain of comparisons, evaluated at build time where no operand is a node."""
        parts = [node.left, *node.comparators]
        operands = [self.operand(part) for part in parts]
        if not any(isinstance(o, Node | Weak) for o in operands):
            return self.number(node)
        conjunction: Any = None
        for i, op in enumerate(node.ops):
            if type(op) not in _COMPARE:
                raise self.fault(
                    node, "XL1017", "'is' and 'in' are not part of the expression language"
                )
            one = self.apply(
                node, "compare", operands[i : i + 2], parts[i : i + 2], direction=_COMPARE[type(op)]
            )
            conjunction = (
                one
                if conjunction is None
                else self.apply(node, "and", [conjunction, one], [node, node])
            )
        return conjunction  # type: ignore[no-any-return]

    def apply(
        self,
        node: ast.expr,
        name: str,
        operands: Sequence[Any],
        parts: Sequence[ast.expr],
        **given: Any,
    ) -> Value:
        """Applies an operation; errors get the places of its operands. Raises Fault."""
        spans = CallSpans(self.place, self.expression, node, parts, {})
        return apply(
            self.context, self.scope, name, operands, given, {}, self.path, spans, self.span(node)
        )

    def is_value(self, node: ast.expr) -> bool:
        """Whether a tree reads values of the graph, not only numbers and sizes."""
        if isinstance(node, ast.Name | ast.Attribute):
            name = dotted(node) or ""
            return not name.startswith("$") and self.scope.sees(name)
        if isinstance(node, ast.Call):
            return braced(node) is None
        return any(
            self.is_value(child)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        )

    def attribute(self, node: ast.expr) -> Any:
        """An attribute: numbers, sizes, lists of them, or a bare word such as same_upper."""
        if isinstance(node, ast.List | ast.Tuple):
            return [self.attribute(item) for item in node.elts]
        if isinstance(node, ast.Name):
            name = dotted(node) or ""
            if not name.startswith("$") and name not in ("true", "false"):
                return self.scope.constants.dims.get(name, name)
        if isinstance(node, ast.Constant):
            return node.value
        return arithmetic.compute(self.expression, self.scope.constants, self.place, node)


def stacker(context: Elaboration, path: str, span: Span) -> Any:
    """A function that stacks copies on a new axis 0."""

    def stack(items: list[Node]) -> Node:
        from xlac.ops import build

        stacked = build.concat([build.reshape(item, (1, *item.shape)) for item in items], 0)
        context.stamp([stacked], Origin(path, span))
        return stacked

    return stack


def expression(
    context: Elaboration, scope: Scope, text: Any, path: str, place: Place
) -> Value | Number:
    """The value of an expression, or of a reference whose name is not a valid expression. Raises
    Fault.
    """
    if not isinstance(text, str):
        return text  # type: ignore[no-any-return]
    if text.isidentifier() or scope.sees(text):
        if scope.sees(text):
            return scope.lookup(text, place)
    elif "$" in text:
        value = (
            arithmetic.text_value(text, scope.constants, place)
            if text.strip().startswith("$") and _alone(text)
            else None
        )
        if isinstance(value, str):
            return scope.lookup(value, place)
    tree = parsed(text, place)
    return Evaluator(context, scope, tree, path, place).value(tree.tree)


def _alone(text: str) -> bool:
    return text.strip()[1:].isidentifier()


def as_node(
    context: Elaboration,
    value: Value | Number,
    text: Any,
    path: str,
    place: Place,
    type: Type | None = None,
) -> Node:
    """A value as a tensor; a number becomes a scalar of the given type, and a list of numbers a
    tensor, by default i32, f32 or bool. Raises Fault.
    """
    from xlac.ops import build

    if isinstance(value, Weak):
        return value.node(type.dtype if type else None)
    if isinstance(value, int | float):
        default = (
            DType.BOOL
            if isinstance(value, bool)
            else DType.I32
            if isinstance(value, int)
            else DType.F32
        )
        check_room(value, type.dtype if type else default, place.span)
        try:
            constant = build.constant(value, type.dtype if type else default)
        except ShapeError as error:
            raise Fault("XL2006", str(error), place.span) from None
        context.stamp([constant], Origin(path, place.span))
        return constant
    return tensor(value, str(text), place, stacker(context, path, place.span))
