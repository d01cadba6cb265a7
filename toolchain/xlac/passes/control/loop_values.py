"""Expressions of a loop's body, evaluated for all iterations at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.ir.graph import Graph, Node
from xlac.ops.control import control, effect
from xlac.ops.control.control import Pick
from xlac.ops.reduction.contraction import Dot
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Iota
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.expand import is_expanded
from xlac.passes.rewrite.rewriter import rebuild

FIXED = (
    effect.CustomCall,
    effect.Barrier,
    control.Cond,
    control.While,
    control.Scan,
    control.Call,
    Pick,
)


# computed where they are read; hoisting them saves nothing
FREE = (Const, Iota, Broadcast, Reshape)


def substituted(outputs: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    """Expressions with some nodes replaced."""
    graph = Graph("", (), {str(n): node for n, node in enumerate(outputs)})
    return list(rebuild(graph, lambda old, node: new.get(old, node)).outputs.values())


def movable(
    nodes: Sequence[Node], outputs: Sequence[Node], shared: dict[Node, Node]
) -> dict[Node, Node]:
    """The largest expressions over shared values that are worth hoisting, with their values
    outside.
    """
    there: dict[Node, Node] = {}
    weight: dict[Node, bool] = {}  # whether it computes something, from shared values
    for node in nodes:
        if node in shared:
            there[node], weight[node] = shared[node], False
        elif isinstance(node.op, Const | Iota):
            there[node], weight[node] = node, False
        elif (
            node.inputs
            and not isinstance(node.op, FIXED)
            and not is_expanded(node.op)
            and all(i in there for i in node.inputs)
        ):
            if len(node.results) > 1:
                continue
            there[node] = replace(node, inputs=tuple(there[i] for i in node.inputs))
            weight[node] = not isinstance(node.op, FREE) or any(weight[i] for i in node.inputs)
    needed: set[Node] = {node for node in outputs if node in there}
    for node in reversed(nodes):
        if node not in there or (node in needed and isinstance(node.op, Broadcast)):
            needed.update(i for i in node.inputs if i in there)
    return {
        n: there[n]
        for n in nodes
        if n in needed and weight.get(n) and not isinstance(n.op, Broadcast)
    }


def outside(node: Node, shared: dict[Node, Node]) -> Node | None:
    """The value, outside the loop, of an operand that all iterations share."""
    chain: list[Node] = []
    while node not in shared:
        if not isinstance(node.op, Reshape | Transpose | Cast):
            return None
        chain.append(node)
        (node,) = node.inputs
    value = shared[node]
    for view in reversed(chain):
        value = replace(view, inputs=(value,))
    return value


def stacked(node: Node, sliced: dict[Node, Node]) -> Node | None:
    """The values of an operand in all iterations, along a new axis 0."""
    chain: list[Node] = []
    while node not in sliced:
        if not isinstance(node.op, Reshape | Transpose | Cast):
            return None
        chain.append(node)
        (node,) = node.inputs
    value = sliced[node]
    for view in reversed(chain):
        op = view.op
        if isinstance(op, Reshape):
            op = Reshape((value.shape[0], *op.shape))
        elif isinstance(op, Transpose):
            op = Transpose((0, *(a + 1 for a in op.perm)))
        value = Node.of(op, value, origin=view.origin)
    return value


def product(node: Node, sides: Sequence[tuple[Node | None, Node | None]]) -> Node | None:
    """The products of all iterations along axis 0, where one operand is sliced and the other is
    shared.
    """
    op = node.op
    assert isinstance(op, Dot)
    (left, left_shared), (right, right_shared) = sides
    if left is not None and right_shared is not None:
        moved = replace(op, contract_lhs=tuple(a + 1 for a in op.contract_lhs))
        return Node.of(moved, left, right_shared, origin=node.origin)
    if right is None or left_shared is None:
        return None
    moved = replace(op, contract_rhs=tuple(a + 1 for a in op.contract_rhs))
    whole = Node.of(moved, left_shared, right, origin=node.origin)
    free = left_shared.type.rank - len(op.contract_lhs)
    order = (free, *range(free), *range(free + 1, whole.type.rank))
    return Node.of(Transpose(order), whole, origin=node.origin)
