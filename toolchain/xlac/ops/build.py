"""Builds nodes in the form in which users write them. `apply` builds any operation by name;
frequent ones have functions of their own.

`values` documents how numbers, element types and shapes are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.ir.graph import Node, pick
from xlac.ir.op import OPS, Op, ShapeError, arity
from xlac.ops.checks import FLOATS
from xlac.ops.forms import FORMS, python_slice
from xlac.ops.indexing import from_end, index
from xlac.ops.nodes import (
    add,
    along,
    axes_of,
    back,
    compare,
    concat,
    cut,
    div,
    dot,
    exp,
    graph,
    iota,
    log,
    maximum,
    minimum,
    mul,
    pad,
    reduce,
    reshape,
    restore,
    select,
    slice_,
    sort,
    sqrt,
    sub,
    take,
    transpose,
)
from xlac.ops.scalar import comparison, primitive
from xlac.ops.tensor import leaf
from xlac.ops.values import (
    Value,
    Weak,
    as_node,
    broadcast_shapes,
    broadcast_to,
    cast,
    compute,
    constant,
    floating,
    full,
    like,
    param,
    promote,
    promoted,
    results,
    spread,
    unify,
)
from xlac_sdk.source import Origin

__all__ = [
    "FORMS", "Value", "Weak", "add", "along", "apply", "apply1", "as_node", "axes_of", "back",
    "broadcast_shapes", "broadcast_to", "cast", "compare", "compute", "concat", "constant", "cut",
    "div", "dot", "exp", "floating", "from_end", "full", "graph", "index", "iota", "like", "log",
    "make", "maximum", "minimum", "mul", "pad", "param", "pick", "promote", "promoted",
    "python_slice", "reduce", "reshape", "restore", "results", "select", "slice_", "sort", "spread",
    "sqrt", "sub", "take", "transpose", "unify",
]  # fmt: skip


def apply(
    mnemonic: str, *inputs: Value, origin: Origin | None = None, **attributes: Any
) -> Node | tuple[Node, ...]:
    """The named operation; a tuple of nodes when it has several results.

    Scalar operations broadcast and promote; views accept short forms. Numbers and arrays become
    constants. Raises ShapeError, and KeyError for an unknown name.
    """
    if mnemonic in FORMS:
        return node_or_results(placed(FORMS[mnemonic](*inputs, **attributes), origin))
    cls = OPS[mnemonic]
    if issubclass(cls, primitive.Scalar | comparison.Compare):
        least, most = arity(cls)
        if not least <= len(inputs) <= (most or len(inputs)):
            raise ShapeError(f"{mnemonic} takes {least} operands, got {len(inputs)}")
        nodes = unify(*inputs)
        if issubclass(cls, primitive.Scalar) and cls.accepts == FLOATS:
            nodes = tuple(floating(n) for n in nodes)
    elif hasattr(cls, "prepare"):  # the operation converts its operands itself
        least, most = arity(cls)
        if not least <= len(inputs) <= (most or len(inputs)):
            raise ShapeError(f"{mnemonic} takes {counted(least, most)}, got {len(inputs)}")
        nodes = cls.prepare(inputs)
    else:
        nodes = tuple(as_node(i) for i in inputs)
    return node_or_results(make(cls, nodes, attributes, origin))


def apply1(mnemonic: str, *inputs: Value, **attributes: Any) -> Node:
    """`apply` for an operation that has one result."""
    result = apply(mnemonic, *inputs, **attributes)
    assert isinstance(result, Node)
    return result


def node_or_results(node: Node) -> Node | tuple[Node, ...]:
    """The node if it has one result, else a tuple of nodes for its results."""
    return node if len(node.results) == 1 else results(node)


def make(
    cls: type[Op], nodes: Sequence[Node], attributes: dict[str, Any], origin: Origin | None = None
) -> Node:
    """A node of an operation from operands of the right types; attributes given as lists become
    tuples.
    """
    least, most = arity(cls)
    op = cls(**{name: frozen(value) for name, value in attributes.items()})
    if len(nodes) < least:
        raise ShapeError(f"{cls.mnemonic} takes {counted(least, most)}, got {len(nodes)}")
    if most is not None and len(nodes) > most:
        learned = op.parameters(*(n.type for n in nodes[:most]))
        if len(nodes) > most + len(learned):
            raise ShapeError(f"{cls.mnemonic} takes {counted(least, most)}, got {len(nodes)}")
    return Node.of(op, *nodes, origin=origin)


def counted(least: int, most: int | None) -> str:
    """The number of operands that an operation takes, for a message."""
    few = (
        f"{least}"
        if least == most
        else f"at least {least}"
        if most is None
        else f"{least} to {most}"
    )
    return f"{few} operand{'s' if few != '1' else ''}"


def frozen(value: Any) -> Any:
    """Nested lists of an attribute as tuples."""
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def placed(node: Node, origin: Origin | None) -> Node:
    """The node with an origin, unless it has one of its own."""
    if origin is None or node.origin is not None or isinstance(node.op, leaf.Param):
        return node
    return Node(node.op, node.inputs, node.types, origin)
