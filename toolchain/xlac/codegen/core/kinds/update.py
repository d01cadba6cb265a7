"""dynamic_update_slice: the operand is updated in place if nothing else needs it, so that only the
slice is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import BufferCopy, KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion import cost
from xlac.fusion.group import Group, is_immediate
from xlac.fusion.overwritten_operand import reads_elsewhere
from xlac.ir.dims import Shape
from xlac.ir.op import Index
from xlac.ops.tensor.index import index_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Work
from xlac_sdk.target import Target

Write = Callable[[Elements, Group, str, Decisions], None]
"""Writes the kernel of the given name for the slice; the group is the part that computes the update
and its position.
"""


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, write: Write
) -> LoweredGroup:
    """A copy of the operand, unless it can be updated in place, then one launch for the slice,
    written by `write`.
    """
    anchor = group.anchor
    x, *others = anchor.inputs
    new = operands.part(group, tuple(others), frozenset())
    launches: tuple[KernelLaunch, ...] = ()
    if others[0].type.size != 0:
        elements = Elements(Builder(), group, target)
        write(elements, new, name, lower_part.decisions)
        launches = (elements.launch(name, _work(group, new)),)
    copies = (BufferCopy(x, anchor),) if others[0].shape != x.shape else ()
    alone = x not in others and not any(
        reads_elsewhere(anchor, node, group.members.__contains__)
        for node in others
        if node in group.members
    )
    return LoweredGroup(launches, ((anchor, x),) if alone else (), copies)


def _work(group: Group, new: Group) -> Work:
    """Bytes of the update, read and written; the rest of the operand is not touched."""
    update = group.anchor.inputs[1]
    given = dict.fromkeys(
        (*new.inputs, *(i for i in group.anchor.inputs[1:] if i not in group.members))
    )
    moved = cost.nbytes(update) + sum(cost.nbytes(n) for n in given if not is_immediate(n))
    return Work(sum(map(cost.flops, new.nodes)), moved)


def updated(elements: Elements) -> Buffer:
    """The buffer that the slice is written to. If the slice covers the whole buffer, its former
    contents are not needed.
    """
    anchor = elements.group.anchor
    x, update = anchor.inputs[:2]
    return elements.parameter(anchor, Access.WRITE if update.shape == x.shape else Access.UPDATE)


def clamped_starts(elements: Elements, group: Group) -> list[Expr]:
    """The clamped start of the slice along each axis."""
    x, update, *starts = group.anchor.inputs
    clamped: list[Expr] = []
    for start, extent, size in zip(starts, x.shape, update.shape, strict=True):
        limit = extent - size
        clamped.append(
            elements.builder.let("start", index_element(elements.at(start, ()), limit))
            if limit != 0
            else build.index(0)
        )
    return clamped


def place_in(spot: Index, firsts: Sequence[Expr], shape: Shape) -> Expr:
    """The row-major offset of an element of the slice in the updated operand."""
    place: Expr = build.index(0)
    for entry, first, stride in zip(spot, firsts, row_major(shape), strict=True):
        place = build.add(place, build.mul(build.add(entry, first), stride))
    return place
