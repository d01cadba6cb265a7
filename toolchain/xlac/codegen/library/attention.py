"""Attention computed by the target's library, if its epilogue only permutes the result."""

from __future__ import annotations

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.after import over_result
from xlac.codegen.library.call import call, epilogue_of, of_type
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape, bounds, divisor, size_hint
from xlac.ir.graph import Node
from xlac.ops.nn.attention import Attention
from xlac.ops.tensor import view
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries import attention
from xlac_sdk.libraries.attention import ATTENTION, Attentions
from xlac_sdk.libraries.strided import Strided
from xlac_sdk.target import Target

LANES = 8  # 16-bit elements in 16 bytes, the unit of libraries' loads


def called(group: Group, target: Target) -> LoweredGroup:
    """One call that computes the whole group. Raises LibraryRefused if a kernel must be
    generated.
    """
    anchor, op, (output, *_) = group.anchor, group.anchor.op, group.outputs
    assert isinstance(op, Attention)
    library = of_type(anchor, target.attentions, "attention")
    after = epilogue_of(group, library.library)
    if not all(
        isinstance(node.op, view.Reshape | view.Transpose)
        for node in after.paths
        if node is not anchor
    ):
        raise LibraryRefused(f"{library.library} has no epilogue for attention")
    shapes = op.shapes(*(node.type for node in anchor.inputs[:3]))
    _check(anchor, op, shapes, library)
    views = [operands.resolve(node, group) for node in anchor.inputs[:3]]
    place = OperandView(output, over_result(after, output, row_major(output.shape)))
    (batch, many, time, width), (_, _, length, _), (_, _, _, wide) = shapes
    queries, keys, values, result = (
        _heads(side, node.type.rank, shape, library.operands)
        for side, node, shape in zip(
            (*views, place),
            (*anchor.inputs[:3], anchor),
            (*shapes, (batch, many, time, wide)),
            strict=True,
        )
    )
    mask = (
        _mask(anchor, group, (batch, many, time, length), target.fast, library)
        if len(anchor.inputs) > 3
        else None
    )
    assert isinstance(width, int)
    scale = width**-0.5 if op.scale is None else op.scale
    problem = attention.Attention(
        queries,
        keys,
        values,
        result,
        scale,
        op.causal and time != 1,
        mask[1] if mask else None,
        library.workspace,
    )
    read = (*views, mask[0] if mask else None)
    return call(after, {ATTENTION: problem}, read, library.library, library.workspace, whole=read)


def _check(
    anchor: Node, op: Attention, shapes: tuple[tuple[Dim, Dim, Dim, Dim], ...], library: Attentions
) -> None:
    """Raises LibraryRefused for attentions that the library does not support, or that are too small
    for it.
    """
    (_, many, time, width), (_, few, length, _), (_, _, _, wide) = shapes
    name = library.library
    if any(
        not isinstance(size, int) or size % LANES or size > library.widest for size in (width, wide)
    ):
        raise LibraryRefused(
            f"{name} takes widths that are a multiple of {LANES}, up to {library.widest}"
        )
    rows = size_hint(time) * (size_hint(many) // max(1, size_hint(few)))
    if rows < library.least:
        raise LibraryRefused(
            f"{rows} queries share keys, fewer than the {library.least} from which {name} is taken"
        )
    flops = cost.flops(anchor)
    if flops < library.flops:
        raise LibraryRefused(
            f"{flops:,} flops are fewer than the {library.flops:,} from which {name} is taken"
        )
    if bounds(length)[0] < 1:
        raise LibraryRefused("the number of keys may be 0")
    if op.causal and bounds(length - time)[0] < 0:
        raise LibraryRefused(
            "some queries see no key: the operation defines the mean of all values for them, "
            f"and {name} does not"
        )


def _heads(view: OperandView | None, rank: int, shape: Shape, dtype: DType) -> Strided:
    """The view of an operand as (batch, heads, time, width)."""
    if view is None:
        raise LibraryRefused("the layout of an operand cannot be expressed by strides")
    steps = view.strides
    if rank == 3:
        steps = steps[0], steps[2] * shape[3], steps[1], steps[2]
    if any(step == 0 and extent != 1 for step, extent in zip(steps, shape, strict=True)):
        raise LibraryRefused("an operand is broadcast along one of its axes")
    if steps[3] != 1 or any(divisor(n) % LANES for n in (*steps[:3], view.offset)):
        raise LibraryRefused(
            "the width of a head is not contiguous in memory, or not aligned to 16 bytes"
        )
    return Strided(dtype, shape, steps, view.offset)


def _mask(
    anchor: Node, group: Group, scores: Shape, fast: bool, library: Attentions
) -> tuple[OperandView, Strided]:
    """An additive mask, and its view."""
    node, name = anchor.inputs[3], library.library
    if node.type.dtype is DType.BOOL:
        raise LibraryRefused(f"{name} only adds masks to scores, and this mask is boolean")
    if not fast:
        raise LibraryRefused(
            f"only precision: fast lets {name} add a mask: it gives other results for rows "
            "that are masked throughout"
        )
    view = operands.resolve(node, group)
    if view is None or node.shape[-1:] != scores[-1:] or view.strides[-1] != 1:
        raise LibraryRefused("the mask is not contiguous in memory for each query")
    missing = 4 - node.type.rank
    steps = (0,) * missing + view.strides
    extents = tuple(
        1 if step == 0 else extent
        for step, extent in zip(steps, (1,) * missing + node.shape, strict=True)
    )
    return view, Strided(library.operands, extents, steps, view.offset)
