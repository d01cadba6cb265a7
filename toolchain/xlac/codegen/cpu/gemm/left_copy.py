"""Decides whether the left operand of a product is copied first: to widen 16-bit floats, or to make
it contiguous along the sum, as products of words require.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xlac.codegen.core.contraction import byte_words
from xlac.codegen.core.contraction.contraction import is_constant
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.operands import DotOperandsSchedule, OperandCopy, check_order
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import Group
from xlac.ir.dims import divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.view import Reshape, Transpose
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

WIDE = 128  # columns of the result from which a copy of the left operand is relatively cheap
HALVES = 8  # rows of the result from which 16-bit floats are converted first
# contiguous rows from which columns are copied to be contiguous along the sum: several cache lines
TALL = 64


def choose(anchor: Node, view: OperandView | None, target: Target) -> DotOperandsSchedule:
    """The schedule with a copy of the left operand of a dot product if that pays; `view` is its
    layout, None if it is computed first. It decides which kernels can follow, and so how sums
    round: only shipped facts are read.
    """
    return DotOperandsSchedule(_copy(anchor, view, target.shipped))


def check(schedule: DotOperandsSchedule, group: Group) -> None:
    """Raises Misfit for a copy that the left operand of a dot product cannot have."""
    copy, node = schedule.left, group.anchor.inputs[0]
    left = node.type
    if copy is None:
        return
    check_order(copy.order, left.rank, ("left", "order"))
    able = {left.dtype, left.dtype.compute} if left.dtype.is_half else {left.dtype}
    if copy.dtype not in able:
        words = " or ".join(sorted(d.value for d in able))
        raise Misfit(("left", "dtype"), f"it must be {words}")
    same = copy.dtype is left.dtype and copy.order == tuple(range(left.rank))
    if same and node not in group.members:
        raise Misfit(("left",), "the copy would equal the operand: it must be null")


def _copy(anchor: Node, view: OperandView | None, target: Target) -> OperandCopy | None:
    left, op = anchor.inputs[0], anchor.op
    assert isinstance(op, Dot)
    rows, columns = op.free(left.type.rank, anchor.inputs[1].type.rank)
    wide = volume(tuple(anchor.inputs[1].shape[a] for a in columns))
    if target.size or size_hint(wide) < WIDE:
        return None
    dtype = left.type.dtype
    if 0 < target.temporary_bytes < size_hint(left.type.size) * dtype.compute.nbytes:
        return None
    tall = size_hint(volume(tuple(left.shape[a] for a in rows)))
    widened = dtype.is_half and tall >= HALVES
    crossed = view is not None and (
        _crosses_lines(left, view, op, rows, target) or _scatters_words(anchor, view, target)
    )
    if not widened and not crossed:
        return None
    kept = tuple(a for a in range(left.type.rank) if a not in op.contract_lhs)
    order = (*kept, *op.contract_lhs) if crossed else tuple(range(left.type.rank))
    return OperandCopy(dtype.compute if widened else dtype, order)


def _crosses_lines(
    left: Node, view: OperandView, op: Dot, rows: Sequence[int], target: Target
) -> bool:
    """Whether the cache lines that a sum reads do not fit the first-level cache."""
    constant = isinstance(view.value, Node) and is_constant(view.value)  # packed at compile time
    if constant or not target.vector_bytes or not left.type.dtype.is_float:
        return False
    summed = [(view.strides[a], left.shape[a]) for a in op.contract_lhs if left.shape[a] != 1]
    steps = [abs(stride) for stride, _ in summed if isinstance(stride, int)]
    if not steps or len(steps) < len(summed):
        return False
    beside = any(view.strides[a] == 1 and size_hint(left.shape[a]) >= TALL for a in rows)
    depth = size_hint(volume(tuple(extent for _, extent in summed)))
    jump = min(steps) * left.type.dtype.nbytes
    return beside and jump >= target.hardware.line_bytes and depth >= lines_held(jump, target)


def _scatters_words(anchor: Node, view: OperandView, target: Target) -> bool:
    """Whether elements that could be multiplied in words are not adjacent along the sum."""
    (left, right), op = anchor.inputs, anchor.op
    assert isinstance(op, Dot)
    if not byte_words.multiply_words(left.type.dtype, right.type.dtype, target):
        return False
    while isinstance(right.op, Transpose | Reshape):
        (right,) = right.inputs
    last = op.contract_lhs[-1]
    return (
        is_constant(right)
        and anchor.type.dtype is DType.I32
        and view.strides[last] != 1
        and divisor(left.shape[last]) % byte_words.count(left.type.dtype) == 0
    )


def lines_held(jump: int, target: Target) -> int:
    """How many lines, `jump` bytes apart, the first-level cache can hold at once."""
    sets, line = target.hardware.l1_sets, target.hardware.line_bytes
    lines = max(target.l1_bytes // line, sets)
    return lines // (gcd(sets, jump // line) if jump % line == 0 else 1)
