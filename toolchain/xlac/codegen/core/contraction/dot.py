"""Dot products: any dimension numbers become one canonical contraction, for which a device has
kernels.
"""

from __future__ import annotations

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.contraction.axes import ContractionLoop, LowerContraction, arranged, runs
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource, is_constant
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

TALL = 64  # neighbouring rows of a left operand that is turned around
DEEP = 256  # steps of its sums, at least
OFTEN = 256  # columns that it is read for, in panels
LINES = 256  # bytes from a step to the next
WIDE = 128  # columns from which halves on the left are converted to f32 before the product


def lower(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    contraction: LowerContraction,
    *,
    prologue: bool = False,
    copies: bool = False,
) -> LoweredGroup:
    """Launches for a dot product with what follows it: kernels that make operands, if any, then
    those of the contraction.

    With `prologue`, operands that are computed element by element are computed where the kernel
    reads them; with `copies`, a left operand that is read often is copied where it is of halves, which
    are converted, or where each step of a sum is in another line of memory.
    """
    anchor = group.anchor
    assert isinstance(anchor.op, Dot)
    after = epilogue.of(group, anchor)
    if after is None:

        def alone(part: Group) -> LoweredGroup:
            return lower(
                part, target, name, lower_part, contraction, prologue=prologue, copies=copies
            )

        return operands.apart(group, anchor, alone, target, name, lower_part)
    launches: list[KernelLaunch] = []
    views: list[OperandView] = []
    for side, node in zip(("left", "right"), anchor.inputs, strict=True):
        if side == "left" and copies and _widened(anchor, target):
            wide, made = operands.widen(node, group, target, f"{name}_left", lower_part)
            launches += made
            views.append(wide)
            continue
        found = operands.resolve(node, group, prologue=prologue)
        if found is None and side == "right":
            found = operands.folded(node, group)
        if found is None:
            found, made = operands.materialize(node, group, target, f"{name}_{side}", lower_part)
            launches += made
        elif side == "left" and copies and _crossed(anchor, found, target):
            (last,) = anchor.op.contract_lhs
            found, made = operands.turned(node, last, group, target, f"{name}_left", lower_part)
            launches += made
        views.append(found)
    c = canonical(anchor, after, views[0], views[1])
    launches += contraction(group, target, name, lower_part.decisions, c, after, views[1])
    used = {v.value for v in views if isinstance(v.value, Node)}
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def _widened(anchor: Node, target: Target) -> bool:
    """True when halves on the left are read so often that they are better converted once, in a
    copy.
    """
    (left, right), op = anchor.inputs, anchor.op
    assert isinstance(op, Dot)
    rows, columns = op.free(left.type.rank, right.type.rank)
    tall, wide = (
        volume(tuple(left.shape[a] for a in rows)),
        volume(tuple(right.shape[a] for a in columns)),
    )
    many = size_hint(tall) >= 8 and size_hint(wide) >= WIDE
    return left.type.dtype.is_half and many and not target.size


def _crossed(anchor: Node, left: OperandView, target: Target) -> bool:
    """True when rows of the left operand are neighbours in memory and the steps of its long sums are
    lines apart. Tiles of few rows read a line for each step, and these, all as far apart, have so few
    places in a cache that they are gone when the next tile wants its rows of them.
    """
    op = anchor.op
    assert isinstance(op, Dot)
    dtype = anchor.inputs[0].type.dtype
    if len(op.contract_lhs) != 1 or target.size or not target.vector_bytes:
        return False
    if dtype not in (DType.F32, DType.F64) or (
        isinstance(left.value, Node) and is_constant(left.value)
    ):
        return False
    shape, (axis,) = anchor.inputs[0].shape, op.contract_lhs
    rows, columns = op.free(len(left.strides), anchor.inputs[1].type.rank)
    side_by_side = any(left.strides[a] == 1 and size_hint(shape[a]) >= TALL for a in rows)
    apart = size_hint(left.strides[axis]) * dtype.nbytes >= LINES
    wide = size_hint(volume(tuple(anchor.inputs[1].shape[a] for a in columns))) >= OFTEN
    return side_by_side and apart and wide and size_hint(shape[axis]) >= DEEP


def canonical(anchor: Node, after: Epilogue, left: OperandView, right: OperandView) -> Contraction:
    """The dot product with its axes sorted into outer, rows, columns and inner, and merged where
    strides allow.
    """
    op = anchor.op
    assert isinstance(op, Dot)
    shape = anchor.shape
    sizes = anchor.inputs[0].shape
    free_left, free_right = op.free(len(left.strides), len(right.strides))
    pairs: list[tuple[Dim, Dim]] = [
        (left.strides[a], right.strides[b]) for a, b in zip(op.batch_lhs, op.batch_rhs, strict=True)
    ]
    pairs += [(left.strides[a], 0) for a in free_left] + [(0, right.strides[b]) for b in free_right]
    split = len(shape) - len(free_right)
    axes = [Axis(n, *p) for n, p in zip(shape, pairs, strict=True)]
    around, across = runs(axes[:split]), runs(axes[split:], split)
    columns = across.pop() if across else ContractionLoop(Axis(1), ())
    rows = sorted((r for r in around if not r.loop.right), key=lambda r: -r.loop.usual)[:2]
    summed = [
        Axis(sizes[a], left.strides[a], right.strides[b])
        for a, b in zip(op.contract_lhs, op.contract_rhs, strict=True)
    ]
    dtypes = (
        left.value.dtype if isinstance(left.value, Scratch) else anchor.inputs[0].type.dtype,
        anchor.inputs[1].type.dtype,
    )
    return arranged(
        anchor,
        after,
        [*around, *across],
        rows,
        columns,
        summed,
        OperandSource(left.value, dtypes[0], left.offset, left.computed),
        OperandSource(right.value, dtypes[1], right.offset, right.computed),
    )
