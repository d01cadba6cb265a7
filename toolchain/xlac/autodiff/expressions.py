"""Builds nodes from the derivatives that operations declare as text, such as `t * cos(x)`."""

from __future__ import annotations

import ast
import operator as operators
from collections.abc import Mapping
from functools import cache

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.values import Value

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.BitAnd: "and",
    ast.BitOr: "or",
}
_PLAIN = {
    ast.Add: operators.add,
    ast.Sub: operators.sub,
    ast.Mult: operators.mul,
    ast.Div: operators.truediv,
}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def expression(text: str, names: Mapping[str, Value]) -> Node | None:
    """The value of an expression over numbers and nodes of one shape and dtype; None if it is the
    number 0. Calls are operations by name.
    """
    value = _value(_parsed(text), names)
    if isinstance(value, Node):
        return value
    assert value == 0, f"{text!r} is a number"
    return None


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(tree: ast.expr, names: Mapping[str, Value]) -> Value:
    match tree:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value(operand, names)
            return -value if isinstance(value, int | float) else build.apply1("neg", value)
        case ast.BinOp(left=left, op=operator, right=right):
            return _binary(operator, _value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            direction = _COMPARE[type(operator)]
            return build.compare(_value(left, names), direction, _value(right, names))
        case ast.Call(func=ast.Name(id="where"), args=[condition, x, y]):
            return build.select(*(_value(each, names) for each in (condition, x, y)))
        case ast.Call(func=ast.Name(id=name), args=args):
            return build.apply1(name, *(_value(each, names) for each in args))
    raise AssertionError(f"a derivative cannot contain {ast.unparse(tree)}")


def _binary(operator: ast.operator, left: Value, right: Value) -> Value:
    """A binary operator. Two numbers are combined in Python, so in f64."""
    plain = _PLAIN.get(type(operator))
    if plain and isinstance(left, int | float) and isinstance(right, int | float):
        number: float = plain(left, right)
        return number
    return build.apply1(_BINARY[type(operator)], left, right)
