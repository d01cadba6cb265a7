"""Arithmetic at build time, over parameters and dims: `${4 * width}`, sizes in types, `repeat:
$depth`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from xlac.ir.dims import Dim, Sym
from xlac.spec.report import Fault, Place, Poisoned, nearest
from xlac.spec.text.expression import Parsed, braced, parse
from xlac.spec.text.grammar import MAX_BITS, Malformed, dotted

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "int": int, "float": float, "round": round,
    "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "log": math.log, "exp": math.exp,
    "len": len,
}  # fmt: skip


class Constants:
    """The parameters and dims in scope for arithmetic."""

    def __init__(
        self, params: Mapping[str, Any], dims: Mapping[str, Dim], broken: Collection[str] = ()
    ) -> None:
        self.params, self.dims = params, dims
        self.broken = broken  # names whose declarations were already reported as wrong

    def extended(
        self, params: Mapping[str, Any], dims: Mapping[str, Dim] | None = None
    ) -> Constants:
        """These and further ones, which shadow those of the same name."""
        return Constants({**self.params, **params}, {**self.dims, **(dims or {})}, self.broken)

    def param(self, name: str, place: Place, offset: int, width: int) -> Any:
        """The value of a parameter. Raises Fault for an unknown one."""
        if name not in self.params:
            if name in self.broken:
                raise Poisoned
            raise Fault(
                "XL2003",
                f"unknown parameter {name!r}",
                place.inside(offset, width),
                nearest(name, self.params) if self.params else f"params: {{{name}: 1}} declares it",
            )
        return self.params[name]

    def name(self, name: str, place: Place, offset: int, width: int) -> Any:
        """The value of a bare name inside `${…}` or a type: a parameter or a dim."""
        if name in self.params:
            return self.params[name]
        if name in self.dims:
            return self.dims[name]
        if name in self.broken:
            raise Poisoned
        known = [*self.dims, *self.params]
        raise Fault(
            "XL2004",
            f"unknown size or parameter {name!r}",
            place.inside(offset, width),
            nearest(name, known) if known else f"dims: {{{name}: {{min: 1, max: 64}}}} declares it",
        )


def parsed(text: str, place: Place) -> Parsed:
    """Parses an expression; errors get their place in the file."""
    try:
        return parse(text)
    except Malformed as error:
        raise Fault(
            error.code, str(error), place.inside(error.offset, error.width), error.hint
        ) from None


def value(data: Any, constants: Constants, place: Place) -> Any:
    """Data with every `$param` and `${…}` in it evaluated. Raises Fault."""
    if isinstance(data, str):
        return text_value(data, constants, place) if "$" in data else data
    if isinstance(data, list):
        return [value(item, constants, place.at(i)) for i, item in enumerate(data)]
    if isinstance(data, dict):
        return {key: value(item, constants, place.at(key)) for key, item in data.items()}
    return data


_PIECE = re.compile(r"\$\{[^}]*\}|\$\w+")


def text_value(text: str, constants: Constants, place: Place) -> Any:
    """The value of text: a single `$param` or `${…}` gives its value; among other characters it is
    substituted as text, and `$$` is a dollar sign.
    """
    if "$$" in text:
        return "$".join(
            str(text_value(part, constants, place)) if "$" in part else part
            for part in text.split("$$")
        )
    if not _PIECE.fullmatch(text.strip()):
        pieces = list(_PIECE.finditer(text))
        if not pieces or "$" in _PIECE.sub("", text):
            raise Fault(
                "XL1019",
                "'$' must be followed by a parameter's name or by {…}",
                place.inside(text.find("$"), 1),
            )
        if re.fullmatch(r"[\s\d.+*/%()-]*", _PIECE.sub("", text)):
            raise Fault(
                "XL1019",
                f"arithmetic is written inside braces, not as {text!r}",
                place.span,
                '"${4 * width}" computes',
            )
        return _PIECE.sub(lambda m: str(compute(parsed(m[0], place), constants, place)), text)
    return compute(parsed(text, place), constants, place)


def compute(
    expression: Parsed, constants: Constants, place: Place, tree: ast.expr | None = None
) -> Any:
    """Evaluates arithmetic. Raises Fault at the part that is wrong."""
    return _Arithmetic(expression, constants, place).visit(
        expression.tree if tree is None else tree
    )


class _Arithmetic:
    """Evaluates one expression."""

    def __init__(self, expression: Parsed, constants: Constants, place: Place) -> None:
        self.expression, self.constants, self.place = expression, constants, place

    def fault(self, node: ast.AST, code: str, message: str, hint: str = "") -> Fault:
        """A Fault at a part of the expression."""
        return Fault(code, message, self.place.inside(*self.expression.place(node)), hint)

    def visit(self, node: ast.expr) -> Any:
        """The value of a part. Raises Fault."""
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.List() | ast.Tuple():
                return [self.visit(item) for item in node.elts]
            case ast.BinOp() if type(node.op) in _BINARY:
                return self.apply(
                    node, _BINARY[type(node.op)], self.visit(node.left), self.visit(node.right)
                )
            case ast.UnaryOp(op=ast.USub()):
                return self.apply(node, operator.neg, self.visit(node.operand))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.visit(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return not self.visit(node.operand)
            case ast.BoolOp(op=ast.And()):
                # every part is checked, even where its value is not needed
                parts = [self.visit(item) for item in node.values]
                return all(parts)
            case ast.BoolOp():
                parts = [self.visit(item) for item in node.values]
                return any(parts)
            case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
                items = [self.visit(item) for item in (node.left, *node.comparators)]
                pairs = zip(node.ops, items, items[1:], strict=False)
                return all(self.apply(node, _COMPARE[type(op)], a, b) for op, a, b in pairs)
            case ast.IfExp():
                return self.visit(node.body) if self.visit(node.test) else self.visit(node.orelse)
            case ast.Subscript(slice=ast.Slice() as part):
                ends = [
                    None if one is None else self.visit(one)
                    for one in (part.lower, part.upper, part.step)
                ]
                return self.apply(node, _part_of_list, self.visit(node.value), *ends)
            case ast.Subscript(slice=ast.expr() as index):
                return self.apply(node, operator.getitem, self.visit(node.value), self.visit(index))
            case ast.Call():
                return self.call(node)
        raise self.fault(node, "XL2017", "this is not arithmetic over numbers")

    def name(self, node: ast.expr) -> Any:
        """The value of a name: a parameter, a size, or a built-in constant. Raises Fault."""
        name = dotted(node) or ""
        if name in ("true", "false", "inf", "nan"):
            return name == "true" if name in ("true", "false") else float(name)
        at = self.expression.place(node)
        if name.startswith("$"):
            return self.constants.param(name[1:], self.place, *at)
        return self.constants.name(name, self.place, *at)

    def call(self, node: ast.Call) -> Any:
        """The value of a function call or of `${…}`. Raises Fault."""
        if (inner := braced(node)) is not None:
            return self.visit(inner)
        assert isinstance(node.func, ast.Name)
        called = node.func.id
        if called not in _FUNCTIONS or node.keywords:
            problem = f"unknown function {called!r} in arithmetic"
            raise self.fault(node.func, "XL2017", problem, nearest(called, _FUNCTIONS))
        return self.apply(node, _FUNCTIONS[called], *(self.visit(a) for a in node.args))

    def apply(self, node: ast.expr, function: Callable[..., Any], *args: Any) -> Any:
        """Applies a function to known values. Raises Fault."""
        if function is operator.pow and not _small_power(*args):
            raise self.fault(node, "XL4015", f"a number of more than {MAX_BITS} bits")
        if function is operator.mul and any(isinstance(a, str | list) for a in args):
            raise self.fault(node, "XL2017", "text and lists are not multiplied")
        try:
            result = function(*args)
        except ZeroDivisionError:
            raise self.fault(node, "XL2017", "division by zero") from None
        except (TypeError, ValueError, OverflowError, IndexError, AssertionError) as error:
            kinds = ", ".join(shown_value(a) for a in args)
            detail = (
                str(error)
                if isinstance(error, ValueError | IndexError)
                else f"this does not work with {kinds}"
            )
            raise self.fault(node, "XL2017", detail) from None
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise self.fault(node, "XL4015", f"a number of more than {MAX_BITS} bits")
        if isinstance(result, float) and not math.isfinite(result) and all(map(_finite, args)):
            raise self.fault(node, "XL2017", f"the result is {result}")
        return result


def _part_of_list(value: Any, *ends: int | None) -> Any:
    if not isinstance(value, list):
        raise TypeError
    return value[slice(*ends)]


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _small_power(base: Any, exponent: Any) -> bool:
    if isinstance(base, int) and isinstance(exponent, int):
        return exponent <= 0 or base.bit_length() * exponent <= MAX_BITS
    return True


def shown_value(value: Any) -> str:
    """A value as text for a message."""
    return f"the size {value}" if isinstance(value, Sym) else repr(value)[:60]
