"""Indexing in an expression: `x[1:, None, indices]`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.values import Weak, as_node
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.scope import Value
from xlac_sdk.source import Origin

if TYPE_CHECKING:
    from xlac.spec.elaborate.evaluate import Evaluator


def subscript(evaluator: Evaluator, node: ast.Subscript) -> Value:
    """The value of `x[…]`. Raises Fault."""
    x = evaluator.operand(node.value)
    if isinstance(x, Weak):
        x = x.node()
    if not isinstance(x, Node):
        raise evaluator.fault(node.value, "XL2009", "a number cannot be indexed")
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    key = tuple(entry(evaluator, item) for item in items)
    try:
        element = build.index(x, key)
    except ShapeError as error:
        item = items[min(error.operand, len(items) - 1)] if error.operand is not None else node
        raise evaluator.fault(
            item, "XL2009", f"{evaluator.expression.text.strip()}: {error}", error.hint
        ) from None
    except (IndexError, TypeError, ValueError) as error:
        raise evaluator.fault(
            node, "XL2009", f"this index does not fit {x.type}: {error}"
        ) from None
    evaluator.context.stamp([element], Origin(evaluator.path, evaluator.span(node)))
    return element


def entry(evaluator: Evaluator, node: ast.expr) -> Any:
    """One entry of a subscript: a slice, None, an ellipsis, a tensor or a whole number. Raises
    Fault.
    """
    if isinstance(node, ast.Slice):
        parts = [
            None if part is None else whole_number(evaluator, part)
            for part in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)
    if isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis):
        return node.value
    if isinstance(node, ast.List):
        return as_node(evaluator.operand(node))
    return evaluator.operand(node) if evaluator.is_value(node) else whole_number(evaluator, node)


def whole_number(evaluator: Evaluator, node: ast.expr) -> Any:
    """An index or a bound, which may be a symbolic size. Raises Fault."""
    number = arithmetic.compute(
        evaluator.expression, evaluator.scope.constants, evaluator.place, node
    )
    if isinstance(number, bool) or not isinstance(number, int | Sym):
        raise evaluator.fault(node, "XL2006", f"an index is a whole number, not {number!r}")
    return number
