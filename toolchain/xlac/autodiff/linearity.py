"""Whether values are linear in others, decided from the operations between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Call, Cond, Pick, Scan
from xlac.ops.scalar.arithmetic import Div
from xlac.ops.tensor.create import Filled, ZerosLike
from xlac.ops.tensor.leaf import Const
from xlac.ops.values import operand_names
from xlac.ops.walks import dependents

VIEWS = ("broadcast", "reshape", "transpose", "cast")


def is_linear(results: Sequence[Node], sources: Sequence[Node]) -> bool:
    """Whether results are linear in the sources: sums of them, scaled by what does not depend on
    them. May be False for linear results; for example, a product with zero is not taken for zero.
    """
    linear = dependents(results, dict.fromkeys(sources))
    if not all(result in linear or is_zero(result) for result in results):
        return False
    given = set(sources)
    return all(
        _is_linear_node(n, [i in linear for i in n.inputs]) for n in linear if n not in given
    )


def is_zero(node: Node) -> bool:
    """Whether a node is a constant of zeros."""
    while node.op.mnemonic in VIEWS:
        (node,) = node.inputs
    match node.op:
        case Const(value=value):
            return not np.any(value)
        case Filled(number=number):
            return number == 0
    return isinstance(node.op, ZerosLike)


def _is_linear_node(node: Node, linear: Sequence[bool]) -> bool:
    """Whether the results of a node are jointly linear in the inputs marked `linear`."""
    if not all(type.dtype.is_float for type in node.results):
        return False
    match node.op:
        case Pick():
            return True
        case Div():
            return not linear[1]
        case Call(body=Graph() as body):
            return _in_body(body, linear)
        case Cond(branches=branches):
            return not linear[0] and all(_in_body(body, linear[1:]) for body in branches)
        case Scan(body=Graph() as body, carries=count):
            first = zip(node.inputs[:count], linear[:count], strict=True)
            return all(on or is_zero(i) for i, on in first) and _in_scan(body, count, linear)
        case Composite() as op if not op.linear():
            return is_linear(op.expanded(*node.inputs), _marked(node.inputs, linear))
    operands = list(zip(node.inputs, linear, operand_names(node), strict=True))
    return any(
        all(
            name in together if on else name not in together or is_zero(i)
            for i, on, name in operands
        )
        for together in node.op.linear()
    )


def _in_body(body: Graph, linear: Sequence[bool]) -> bool:
    return is_linear(list(body.outputs.values()), _marked(body.inputs, linear))


def _in_scan(body: Graph, count: int, linear: Sequence[bool]) -> bool:
    """`_in_body` of a scan: carried values may become linear after the first iterations only."""
    outputs, marks, before = list(body.outputs.values()), list(linear), [False]
    while marks != before:
        depend = dependents(outputs, dict.fromkeys(_marked(body.inputs, marks)))
        before, carried = marks, [o in depend for o in outputs[:count]]
        marks = [on or (n < count and carried[n]) for n, on in enumerate(marks)]
    return all(marks[:count]) and _in_body(body, marks)


def _marked(nodes: Sequence[Node], marks: Sequence[bool]) -> list[Node]:
    return [node for node, on in zip(nodes, marks, strict=True) if on]
