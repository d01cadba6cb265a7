"""From the tree of an expression to nodes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ir.op import Op, ShapeError
from xlac.ir.types import Type
from xlac.spec.elaborate import arithmetic, attributes
from xlac.spec.elaborate.arithmetic import parsed
from xlac.spec.elaborate.context import Context
from xlac.spec.elaborate.operations import Operand, apply, find, operand_names
from xlac.spec.elaborate.scope import Bundle, Copies, Scope, Value, tensor
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.text.expression import Parsed, braced, dotted
from xlac.spec.text.floats import check_room
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
FILLS = {"zeros": 0, "ones": 1, "full": None}


class Evaluator:
    """One expression of an entry."""

    def __init__(
        self, context: Context, scope: Scope, expression: Parsed, path: str, place: Place
    ) -> None:
        self.context, self.scope, self.expression, self.path, self.place = (
            context,
            scope,
            expression,
            path,
            place,
        )

    def span(self, node: ast.AST) -> Span:
        return self.place.inside(*self.expression.place(node))

    def fault(self, node: ast.AST, code: str, message: str, hint: str = "") -> Fault:
        return Fault(code, message, self.span(node), hint)

    def value(self, node: ast.expr) -> Value | int | float | bool:
        """What a tree stands for; a number stays one, so that it takes the type of what it meets."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.Call():
                if (inner := braced(node)) is not None:
                    return self.number(inner)
                return self.call(node)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self.operator(node, _OPERATORS[type(node.op)], [node.left, node.right])
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand)
            case ast.UnaryOp():
                return self.operator(node, _OPERATORS[type(node.op)], [node.operand])
            case ast.BoolOp():
                found = self.value(node.values[0])
                for right in node.values[1:]:
                    found = self.apply(
                        node, _OPERATORS[type(node.op)], [found, self.value(right)], [node, right]
                    )
                return found
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp():
                parts = [node.test, node.body, node.orelse]
                return self.apply(node, "select", [self.operand(part) for part in parts], parts)
            case ast.Subscript():
                return self.subscript(node)
        raise self.fault(node, "XL1017", "this is not part of the expression language here")

    def operand(self, node: ast.expr) -> Operand:
        found = self.value(node)
        return self.tensor(found, node) if isinstance(found, Bundle | Copies) else found

    def tensor(self, value: Value, node: ast.expr) -> Node:
        return tensor(
            value,
            dotted(node) or "this",
            self.place,
            stacker(self.context, self.path, self.span(node)),
            self.expression.place(node),
        )

    def number(self, node: ast.expr) -> int | float | bool:
        found = arithmetic.compute(self.expression, self.scope.constants, self.place, node)
        if isinstance(found, Sym):
            raise self.fault(
                node,
                "XL2017",
                f"the size {found} is symbolic, and not a number here",
                "give it with --dim, or use it in shapes only",
            )
        if not isinstance(found, int | float):
            raise self.fault(node, "XL2017", f"expected a number, found {found!r}")
        return found

    def name(self, node: ast.expr) -> Value | int | float | bool:
        name = dotted(node) or ""
        if name.startswith("$"):
            return self.number(node)
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

    def operator(
        self, node: ast.expr, name: str, parts: list[ast.expr]
    ) -> Value | int | float | bool:
        operands = [self.operand(part) for part in parts]
        if not any(isinstance(o, Node) for o in operands) and name != "matmul":
            return self.number(node)
        return self.apply(node, name, operands, parts)

    def compare(self, node: ast.Compare) -> Value | int | float | bool:
        parts = [node.left, *node.comparators]
        operands = [self.operand(part) for part in parts]
        if not any(isinstance(o, Node) for o in operands):
            return self.number(node)
        found: Any = None
        for i, op in enumerate(node.ops):
            if type(op) not in _COMPARE:
                raise self.fault(
                    node, "XL1017", "'is' and 'in' are not part of the expression language"
                )
            one = self.apply(
                node, "compare", operands[i : i + 2], parts[i : i + 2], direction=_COMPARE[type(op)]
            )
            found = one if found is None else self.apply(node, "and", [found, one], [node, node])
        return found  # type: ignore[no-any-return]

    def apply(
        self,
        node: ast.expr,
        name: str,
        operands: Sequence[Any],
        parts: Sequence[ast.expr],
        **given: Any,
    ) -> Value:
        spans = CallSpans(self.place, self.expression, node, parts, {})
        return apply(
            self.context, self.scope, name, operands, given, {}, self.path, spans, self.span(node)
        )

    # ---- calls -------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in self.context.custom:
            from xlac.spec.elaborate.custom import call_operator

            return call_operator(self, node, self.context.custom[name])
        if name in FILLS:
            return self.fill(node, name)
        if name in {d.value for d in DType} and len(node.args) == 1 and not node.keywords:
            return self.apply(
                node, "cast", [self.operand(node.args[0])], node.args, dtype=DType(name)
            )
        op = find(self.context, name, self.span(node.func))
        slots, fields = operand_names(op), list(attributes.names(op))
        many = any(o.startswith("*") for o in op.operands)
        operands, parts, given, where = self.positional(node, len(slots), many, fields)
        named: dict[str, ast.expr] = {}
        learned: dict[str, Node] = {}
        for keyword in node.keywords:
            key = keyword.arg or ""
            if key in given or key in named:
                raise self.fault(keyword, "XL2005", f"{key!r} of {name} is given twice")
            if key in fields and not (
                op.parameters is not Op.parameters and self.is_value(keyword.value)
            ):
                given[key], where[key] = self.attribute(keyword.value), keyword.value
            elif key in slots:
                named[key] = keyword.value
            elif op.parameters is not Op.parameters and self.is_value(keyword.value):
                found = self.operand(keyword.value)
                if not isinstance(found, Node):
                    raise self.fault(keyword.value, "XL2006", f"{key} of {name} must be a tensor")
                learned[key], where[key] = found, keyword.value
            else:
                raise self.fault(
                    keyword,
                    "XL2005",
                    f"unknown attribute {key!r} for {name}",
                    nearest(key, [*fields, *slots]),
                )
        for slot in slots[len(operands) :]:
            if slot not in named:
                break
            parts.append(named[slot])
            operands.append(self.operand(named.pop(slot)))
        if named:
            raise self.fault(
                node, "XL2008", f"{name}: input {next(iter(named))!r} is given twice or after a gap"
            )
        spans = CallSpans(self.place, self.expression, node, parts, where)
        return apply(
            self.context,
            self.scope,
            name,
            operands,
            given,
            learned,
            self.path,
            spans,
            self.span(node),
        )

    def positional(
        self, node: ast.Call, slots: int, many: bool, fields: list[str]
    ) -> tuple[list[Operand], list[ast.expr], dict[str, Any], dict[str, ast.expr]]:
        """Positional arguments: tensors first, then attributes in the order of their declaration."""
        operands: list[Operand] = []
        parts: list[ast.expr] = []
        given: dict[str, Any] = {}
        where: dict[str, ast.expr] = {}
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self.fault(arg, "XL1017", "'*' is not part of the expression language here")
            if (
                isinstance(arg, ast.List | ast.Tuple)
                and arg.elts
                and all(self.is_value(a) for a in arg.elts)
                and not given
            ):
                operands += [self.operand(a) for a in arg.elts]
                parts += arg.elts
            elif (
                not given
                and (many or len(operands) < slots)
                and not isinstance(arg, ast.List | ast.Tuple)
                and not _is_text(arg)
            ):
                found = self.value(arg)
                if isinstance(found, Copies) and many:
                    operands += [self.tensor(item, arg) for item in found.items]
                    parts += [arg] * len(found.items)
                else:
                    operands.append(
                        self.tensor(found, arg) if isinstance(found, Bundle | Copies) else found
                    )
                    parts.append(arg)
            else:
                index = len(given)
                if index >= len(fields):
                    raise self.fault(arg, "XL2008", "one argument too many")
                given[fields[index]], where[fields[index]] = self.attribute(arg), arg
        return operands, parts, given, where

    def is_value(self, node: ast.expr) -> bool:
        """Whether a tree reads a value of the graph, rather than numbers and sizes."""
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

    def fill(self, node: ast.Call, name: str) -> Value:
        """zeros(shape), ones(shape), full(shape, value); with dtype=…, f32 unless given."""
        from xlac.ops import build

        names = ["shape", "value", "dtype"] if name == "full" else ["shape", "dtype"]
        given = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in names or keyword.arg in given:
                raise self.fault(
                    keyword,
                    "XL2005",
                    f"unknown attribute {keyword.arg!r} for {name}",
                    ", ".join(names),
                )
            given[keyword.arg] = keyword.value
        if (
            len(node.args) > len(names)
            or "shape" not in given
            or (name == "full" and "value" not in given)
        ):
            raise self.fault(node, "XL2008", f"{name} takes {', '.join(names[:-1])} and dtype")
        text = self.attribute(given["dtype"]) if "dtype" in given else "f32"
        if not isinstance(text, str) or text not in {d.value for d in DType}:
            raise self.fault(
                given["dtype"], "XL2006", "expected an element type such as f32 or i64"
            )
        shape = self.attribute(given["shape"])
        items = (
            given["shape"].elts
            if isinstance(given["shape"], ast.List | ast.Tuple)
            else [given["shape"]]
        )
        sizes = tuple(
            arithmetic.size_value(found, self.place, self.span(item))
            for found, item in zip(
                shape if isinstance(shape, list) else [shape], items, strict=False
            )
        )
        number = FILLS[name]
        value = self.operand(given["value"]) if number is None else number
        dtype = DType(text)
        if "value" in given:
            check_room(value, dtype, self.span(given["value"]))
        try:
            scalar = build.constant(value, dtype) if not isinstance(value, Node) else value
            made = build.broadcast_to(scalar, sizes)
        except ShapeError as error:
            raise self.fault(node, "XL2009", f"{name}: {error}") from None
        self.context.stamp([made], Origin(self.path, self.span(node)))
        return made

    # ---- indexing ----------------------------------------------------------------------------

    def subscript(self, node: ast.Subscript) -> Value:
        from xlac.ops import build

        x = self.operand(node.value)
        if not isinstance(x, Node):
            raise self.fault(node.value, "XL2009", "a number cannot be indexed")
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        key = tuple(self.key(item) for item in items)
        try:
            made = build.index(x, key)
        except ShapeError as error:
            item = items[min(error.operand, len(items) - 1)] if error.operand is not None else node
            raise self.fault(
                item, "XL2009", f"{self.expression.text.strip()}: {error}", error.hint
            ) from None
        except (IndexError, TypeError, ValueError) as error:
            raise self.fault(node, "XL2009", f"this index does not fit {x.type}: {error}") from None
        self.context.stamp([made], Origin(self.path, self.span(node)))
        return made

    def key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            parts = [
                None if part is None else self.size(part)
                for part in (node.lower, node.upper, node.step)
            ]
            return slice(*parts)
        if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
            return node.value
        return self.operand(node) if self.is_value(node) else self.size(node)

    def size(self, node: ast.expr) -> Any:
        found = arithmetic.compute(self.expression, self.scope.constants, self.place, node)
        if isinstance(found, bool) or not isinstance(found, int | Sym):
            raise self.fault(node, "XL2006", f"an index is a whole number, not {found!r}")
        return found


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def stacker(context: Context, path: str, span: Span) -> Any:
    """How copies become one tensor: stacked on a new axis 0."""

    def stack(items: list[Node]) -> Node:
        from xlac.ops import build

        made = build.concat([build.reshape(item, (1, *item.shape)) for item in items], 0)
        context.stamp([made], Origin(path, span))
        return made

    return stack


def expression(
    context: Context, scope: Scope, text: Any, path: str, place: Place
) -> Value | int | float | bool:
    """The value of an expression, or of a reference by a name that no expression can hold. Raises
    Fault.
    """
    if not isinstance(text, str):
        return text  # type: ignore[no-any-return]
    if text.isidentifier() or scope.sees(text):
        if scope.sees(text):
            return scope.lookup(text, place)
    elif "$" in text:
        found = (
            arithmetic.text_value(text, scope.constants, place)
            if text.strip().startswith("$") and _alone(text)
            else None
        )
        if isinstance(found, str):
            return scope.lookup(found, place)
    tree = parsed(text, place)
    return Evaluator(context, scope, tree, path, place).value(tree.tree)


def _alone(text: str) -> bool:
    return text.strip()[1:].isidentifier()


def as_node(
    context: Context,
    value: Value | float | bool,
    text: Any,
    path: str,
    place: Place,
    type: Type | None = None,
) -> Node:
    """A value as a tensor; a number becomes a scalar of the type given, else i32, f32 or bool.
    Raises Fault.
    """
    from xlac.ops import build

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
            made = build.constant(value, type.dtype if type else default)
        except ShapeError as error:
            raise Fault("XL2006", str(error), place.span) from None
        context.stamp([made], Origin(path, place.span))
        return made
    return tensor(value, str(text), place, stacker(context, path, place.span))
