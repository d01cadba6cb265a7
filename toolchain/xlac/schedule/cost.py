"""What nodes cost: operations an element, bytes a group moves. Rough figures that fusion and schedules weigh."""

from __future__ import annotations

from xlac.ir.dims import at_opt
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops import cost, leaf, view
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
    """Arithmetic operations of a whole node, as `xlac.ops.cost` counts them."""
    return cost.flops(node.op, tuple(t for i in node.inputs for t in i.results), node.results)


def work(group: Group) -> Work:
    """The operations of a group, and the bytes of its inputs and outputs, each counted once."""
    moved = sum(nbytes(n) for n in (*group.inputs, *group.outputs) if not is_immediate(n))
    return Work(sum(map(flops, group.nodes)), moved)
