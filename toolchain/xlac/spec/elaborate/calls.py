"""Calls in an expression: an operation by its name, a conversion, `zeros`, `ones` and `full`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from xlac.ir.graph import Node
from xlac.ir.op import Op, ShapeError, arity
from xlac.ops import build
from xlac.spec.elaborate import attributes, type_text
from xlac.spec.elaborate.operations import Operand, apply, find, operand_names
from xlac.spec.elaborate.scope import Bundle, Copies, Value
from xlac.spec.report import nearest
from xlac.spec.text.floats import check_room
from xlac.spec.text.spans import CallSpans
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

if TYPE_CHECKING:
    from xlac.spec.elaborate.evaluate import Evaluator

FILLS = {"zeros": 0, "ones": 1, "full": None}


def call(evaluator: Evaluator, node: ast.Call) -> Value:
    """The value of a call. Raises Fault or Poisoned."""
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    if name in evaluator.context.custom:
        entry = evaluator.context.custom[name]
        return evaluator.context.handlers.custom_call(evaluator, node, entry)
    if name in FILLS:
        return fill(evaluator, node, name)
    if name in {d.value for d in DType} and len(node.args) == 1 and not node.keywords:
        return evaluator.apply(
            node, "cast", [evaluator.operand(node.args[0])], node.args, dtype=DType(name)
        )
    op = find(evaluator.context, name, evaluator.span(node.func))
    slots, fields = operand_names(op), list(attributes.names(op))
    many = any(o.startswith("*") for o in op.operands)
    operands, parts, given, where = positional(
        evaluator, node, len(slots), many, fields, arity(op)[0]
    )
    named, learned = keywords(evaluator, node, op, slots, given, where)
    for slot in slots[len(operands) :]:
        if slot not in named:
            break
        parts.append(named[slot])
        operands.append(evaluator.operand(named.pop(slot)))
    if named:
        raise evaluator.fault(
            node, "XL2008", f"{name}: input {next(iter(named))!r} is given twice or after a gap"
        )
    spans = CallSpans(evaluator.place, evaluator.expression, node, parts, where)
    return apply(
        evaluator.context,
        evaluator.scope,
        name,
        operands,
        given,
        learned,
        evaluator.path,
        spans,
        evaluator.span(node),
    )


def keywords(
    evaluator: Evaluator,
    node: ast.Call,
    op: type[Op],
    slots: list[str],
    given: dict[str, Any],
    where: dict[str, ast.expr],
) -> tuple[dict[str, ast.expr], dict[str, Node]]:
    """Reads keyword arguments. Those that name inputs, and learned tensors, are returned;
    attributes are added to `given`, and their places to `where`. Raises Fault.
    """
    named: dict[str, ast.expr] = {}
    learned: dict[str, Node] = {}
    assert isinstance(node.func, ast.Name)
    name, fields = node.func.id, list(attributes.names(op))
    for keyword in node.keywords:
        key = keyword.arg or ""
        if key in given or key in named:
            raise evaluator.fault(keyword, "XL2005", f"{key!r} of {name} is given twice")
        if key in fields and not (
            op.parameters is not Op.parameters and evaluator.is_value(keyword.value)
        ):
            given[key], where[key] = evaluator.attribute(keyword.value), keyword.value
        elif key in slots:
            named[key] = keyword.value
        elif op.parameters is not Op.parameters and evaluator.is_value(keyword.value):
            operand = evaluator.operand(keyword.value)
            if not isinstance(operand, Node):
                raise evaluator.fault(keyword.value, "XL2006", f"{key} of {name} must be a tensor")
            learned[key], where[key] = operand, keyword.value
        else:
            raise evaluator.fault(
                keyword,
                "XL2005",
                f"unknown attribute {key!r} for {name}",
                nearest(key, [*fields, *slots]),
            )
    return named, learned


def positional(
    evaluator: Evaluator, node: ast.Call, slots: int, many: bool, fields: list[str], needed: int = 0
) -> tuple[list[Operand], list[ast.expr], dict[str, Any], dict[str, ast.expr]]:
    """Positional arguments: tensors first, then attributes in the order of their declaration. A
    list of numbers is a tensor where one of the first `needed` is.
    """
    operands: list[Operand] = []
    parts: list[ast.expr] = []
    given: dict[str, Any] = {}
    where: dict[str, ast.expr] = {}
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            raise evaluator.fault(arg, "XL1017", "'*' is not part of the expression language here")
        listed = isinstance(arg, ast.List | ast.Tuple)
        if isinstance(arg, ast.List | ast.Tuple) and not given and _are_values(evaluator, arg):
            operands += [evaluator.operand(a) for a in arg.elts]
            parts += arg.elts
        elif (
            not given
            and (many or len(operands) < slots)
            and (not listed or (isinstance(arg, ast.List) and len(operands) < needed))
            and not _is_text(arg)
        ):
            value = evaluator.value(arg)
            if isinstance(value, Copies) and many:
                operands += [evaluator.tensor(item, arg) for item in value.items]
                parts += [arg] * len(value.items)
            else:
                operands.append(
                    evaluator.tensor(value, arg) if isinstance(value, Bundle | Copies) else value
                )
                parts.append(arg)
        else:
            index = len(given)
            if index >= len(fields):
                raise evaluator.fault(arg, "XL2008", "one argument too many")
            given[fields[index]], where[fields[index]] = evaluator.attribute(arg), arg
    return operands, parts, given, where


def _are_values(evaluator: Evaluator, listed: ast.List | ast.Tuple) -> bool:
    """Whether a list is of values, which are operands each; lists of numbers may be among them."""
    values = [evaluator.is_value(part) for part in listed.elts]
    numbers = [isinstance(part, ast.List) for part in listed.elts]
    return any(values) and all(map(max, values, numbers))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def fill(evaluator: Evaluator, node: ast.Call, name: str) -> Value:
    """zeros(shape), ones(shape), full(shape, value), with dtype=… (f32 by default)."""
    names = ["shape", "value", "dtype"] if name == "full" else ["shape", "dtype"]
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in given:
            raise evaluator.fault(
                keyword, "XL2005", f"unknown attribute {keyword.arg!r} for {name}", ", ".join(names)
            )
        given[keyword.arg] = keyword.value
    if (
        len(node.args) > len(names)
        or "shape" not in given
        or (name == "full" and "value" not in given)
    ):
        raise evaluator.fault(node, "XL2008", f"{name} takes {', '.join(names[:-1])} and dtype")
    text = evaluator.attribute(given["dtype"]) if "dtype" in given else "f32"
    if not isinstance(text, str) or text not in {d.value for d in DType}:
        raise evaluator.fault(
            given["dtype"], "XL2006", "expected an element type such as f32 or i64"
        )
    shape = evaluator.attribute(given["shape"])
    items = (
        given["shape"].elts
        if isinstance(given["shape"], ast.List | ast.Tuple)
        else [given["shape"]]
    )
    sizes = tuple(
        type_text.size_value(extent, evaluator.place, evaluator.span(item))
        for extent, item in zip(shape if isinstance(shape, list) else [shape], items, strict=False)
    )
    number = FILLS[name]
    value = evaluator.operand(given["value"]) if number is None else number
    dtype = DType(text)
    if "value" in given:
        check_room(value, dtype, evaluator.span(given["value"]))
    try:
        scalar = build.constant(value, dtype) if not isinstance(value, Node) else value
        filled = build.broadcast_to(scalar, sizes)
    except ShapeError as error:
        raise evaluator.fault(node, "XL2009", f"{name}: {error}") from None
    evaluator.context.stamp([filled], Origin(evaluator.path, evaluator.span(node)))
    return filled
