"""Cost estimates for fusion and lowerings: operations per element, bytes that a group moves."""

from __future__ import annotations

from collections.abc import Iterable

from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops import cost
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor import leaf, view
from xlac_sdk.kernel_ir.kernel import Work
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive
from xlac_sdk.target import Target

FREE = (view.Reshape, view.Broadcast, view.Transpose, view.Slice, leaf.Const, leaf.Iota)
GATHERING = 8  # an element read through an index, or chosen among several operands


WEIGHTS = {
    Primitive.DIV: 4,
    Primitive.REM: 8,
    Primitive.SQRT: 6,
    Primitive.POW: 40,
} | dict.fromkeys(TRANSCENDENTAL - {Primitive.POW}, 16)
"""The cost of a primitive in additions; 1 where it is not listed."""

LAUNCH = 1 << 14  # bytes that could be moved in the time of one more kernel launch
GPU_LAUNCH = 1 << 22  # the same on a GPU, whose memory has two hundred times the bandwidth
FLOP_BYTES = 0.4  # bytes that could be moved in the time of one vector operation, per element
SCALAR_FLOP_BYTES = 4.0  # the same on a target without vectors
GPU_FLOP_BYTES = 0.1  # and on a GPU
STAGED = 4  # operations on an element that passes through registers on its way into a product
ROUNDED = 3  # an operation whose result is rounded to half precision and widened again
GPU_HIDDEN = 8  # operations on an element that a GPU hides behind its memory accesses


def launch_bytes(target: Target) -> int:
    """Bytes that could be moved in the time of one more kernel launch."""
    return GPU_LAUNCH if target.device == "gpu" else LAUNCH


def operation_bytes(target: Target) -> float:
    """Bytes that could be moved in the time of one operation on one element."""
    if target.device == "gpu":
        return GPU_FLOP_BYTES
    return FLOP_BYTES if target.vector_bytes else SCALAR_FLOP_BYTES


def recomputing(target: Target, operations: float, size: float) -> float:
    """Bytes that could be moved in the time of `operations` on each of `size` elements."""
    return (
        max(0.0, operations - (GPU_HIDDEN if target.device == "gpu" else 0))
        * size
        * operation_bytes(target)
    )


def weight(op: Op) -> int:
    """Operations for one element, given its operands."""
    if isinstance(op, FREE):
        return 0
    if isinstance(op, Scalar):
        return WEIGHTS.get(op.primitive, 1)
    return GATHERING if op.mnemonic in ("gather", "concat", "pad", "dyn_slice", "dyn_update") else 1


def weight_of(node: Node) -> int:
    """Operations for one element of a node, given its operands. A stored constant is widened while
    it is loaded, in one instruction.
    """
    if isinstance(node.op, Cast) and isinstance(node.inputs[0].op, leaf.Const):
        before, after = node.inputs[0].type.dtype, node.type.dtype
        if before.is_integer and after.is_integer and before.bits < after.bits:
            return 0
    return weight(node.op)


def staged(nodes: Iterable[Node]) -> int:
    """Operations per element of an operand that `nodes` compute on its way into a product: half
    precision values are rounded after each.
    """
    return STAGED + sum(
        weight(node.op) * (ROUNDED if node.type.dtype.is_half else 1) for node in nodes
    )


def elements(node: Node) -> int:
    """Elements of all results, at the sizes to optimise for."""
    return sum(size_hint(t.size) for t in node.results)


def nbytes(node: Node) -> int:
    """Bytes of all results of a node."""
    return sum(t.nbytes for t in node.results)


def flops(node: Node) -> int:
    """Arithmetic operations of a whole node, as `xlac.ops.cost` counts them."""
    return cost.flops(node.op, tuple(t for i in node.inputs for t in i.results), node.results)


def work(group: Group) -> Work:
    """The operations of a group, and the bytes of its inputs and outputs, each counted once."""
    moved = sum(nbytes(n) for n in (*group.inputs, *group.outputs) if not is_immediate(n))
    return Work(sum(map(flops, group.nodes)), moved)
