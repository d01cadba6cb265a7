"""What nodes cost: operations an element, bytes a group moves. Rough figures that fusion and schedules weigh."""

from __future__ import annotations

from math import prod

from xlac.ir.dims import at_opt
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops import leaf, view
from xlac.ops.scalar import Scalar
from xlac.schedule.access import WEIGHTS
from xlac.schedule.elements import is_immediate
from xlac.schedule.group import Group
from xlac_sdk.kernel import Work

FREE = (view.Reshape, view.Broadcast, view.Transpose, view.Slice, leaf.Const, leaf.Iota)
GATHERING = 8  # an element found through an index, or chosen among several


def weight(op: Op) -> int:
    """Operations that one element takes once its operands are there."""
    if isinstance(op, FREE):
        return 0
    if isinstance(op, Scalar):
        return WEIGHTS.get(op.primitive, 1)
    return GATHERING if op.mnemonic in ("gather", "concat", "pad", "dyn_slice", "dyn_update") else 1


def elements(node: Node) -> int:
    """Elements of all results, at the sizes to optimise for."""
    return sum(at_opt(t.size) for t in node.results)


def nbytes(node: Node) -> int:
    return sum(t.nbytes for t in node.results)


def flops(node: Node) -> int:
    """Arithmetic operations of a whole node, counted as the field does: a multiply and an add are two."""
    name, op = node.op.mnemonic, node.op
    if isinstance(op, FREE) or not node.inputs:
        return 0
    if name == "dot":
        sizes = node.inputs[0].shape
        contracted: tuple[int, ...] = op.contract_lhs  # type: ignore[attr-defined]
        return 2 * elements(node) * prod(at_opt(sizes[a]) for a in contracted)
    if name == "conv":
        kernel = node.inputs[1]
        letters = op.layout[1]  # type: ignore[attr-defined]
        return 2 * elements(node) * volume_without(kernel, letters.index("O"))
    if name in ("reduce", "cumulative"):
        return elements(node.inputs[0])
    if name == "window":
        return elements(node) * int(prod(op.window))  # type: ignore[attr-defined]
    return elements(node)


def volume_without(node: Node, axis: int) -> int:
    """Elements of a node for one position of an axis."""
    return prod(at_opt(n) for a, n in enumerate(node.shape) if a != axis)


def work(group: Group) -> Work:
    """The operations of a group, and the bytes of its inputs and outputs, each counted once."""
    moved = sum(nbytes(n) for n in (*group.inputs, *group.outputs) if not is_immediate(n))
    return Work(sum(map(flops, group.nodes)), moved)
