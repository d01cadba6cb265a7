"""A slice replaced: what is updated stays in its memory where nobody else needs it, and only the
slice is written.

The starts are clamped once a thread; the innermost axis of the slice, which lies contiguous, is a
vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core import operands
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import parallel_loops, pieces_of
from xlac.codegen.core.lowered_group import BufferCopy, KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import lanes_for, strip_mine
from xlac.fusion import cost
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Shape, divisor, size_hint, volume
from xlac.ir.op import Index
from xlac.ops.tensor.index import index_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

PIECE = 64  # vectors of a row that a thread takes at once


Write = Callable[[Elements, Group, Group, Target], None]
"""Writes the kernel of a group for the slice; the second group is what computes the update and
where it goes.
"""


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, write: Write | None = None
) -> LoweredGroup:
    """A copy of the operand, unless it is there already, then one launch for the slice, written by
    `write`.
    """
    anchor = group.anchor
    x, *others = anchor.inputs
    new = operands.part(group, tuple(others), frozenset())
    launches: tuple[KernelLaunch, ...] = ()
    if others[0].type.size != 0:
        elements = Elements(Builder(), group, target)
        (write or _write)(elements, group, new, target)
        launches = (elements.launch(name, _work(group, new)),)
    copies = (BufferCopy(x, anchor),) if others[0].shape != x.shape else ()
    alone = x not in new.inputs and x not in others
    return LoweredGroup(launches, ((anchor, x),) if alone else (), copies)


def _work(group: Group, new: Group) -> Work:
    """The update read and written; the operand is not touched."""
    update = group.anchor.inputs[1]
    given = dict.fromkeys(
        (*new.inputs, *(i for i in group.anchor.inputs[1:] if i not in group.members))
    )
    moved = cost.nbytes(update) + sum(cost.nbytes(n) for n in given if not is_immediate(n))
    return Work(sum(map(cost.flops, new.nodes)), moved)


def _write(elements: Elements, group: Group, new: Group, target: Target) -> None:
    builder, anchor = elements.builder, group.anchor
    x, update, *starts = anchor.inputs
    shape, sizes = x.shape, update.shape
    buffer = updated(elements)
    width = sizes[-1] if sizes else volume(())
    dtypes = [n.type.dtype for n in (update, *new.nodes) if n not in starts]
    lanes = lanes_for(target, dtypes, width)
    block = min(lanes * PIECE, max(1, -(-size_hint(width) // lanes)) * lanes)
    loops = [Run(extent, (axis,)) for axis, extent in enumerate(sizes[:-1])]
    pieces = pieces_of(width, block)
    each = block * (1 + cost.weight(update.op))
    with parallel_loops(builder, target, [*loops, pieces], each) as counters:
        firsts = clamped_starts(elements, group)
        before = tuple(counters[run] for run in loops)
        base = build.mul(counters[pieces], block)
        length: build.Number = block if divisor(width) % block == 0 else width
        if pieces.extent != 1 and divisor(width) % block:
            stop = build.apply(Primitive.MIN, build.add(base, block), build.lift(width))
            length = builder.let("length", build.sub(stop, base))

        def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            for at in bases:
                spot = (*before, build.ramp(at, 1, wide))[: len(sizes)]
                place = place_in(spot, firsts, shape)
                if mask is None:
                    elements.store_to(buffer, place, elements.at(update, spot))
                else:
                    with elements.masked(mask):
                        elements.store_to(buffer, place, elements.at(update, spot))

        strip_mine(builder, target, base, length, lanes, 1, strip)


def updated(elements: Elements) -> Buffer:
    """What the slice is written into; where it takes the place of the whole, what was there before
    does not matter.
    """
    anchor = elements.group.anchor
    x, update = anchor.inputs[:2]
    return elements.parameter(anchor, Access.WRITE if update.shape == x.shape else Access.UPDATE)


def clamped_starts(elements: Elements, group: Group) -> list[Expr]:
    """Where the slice begins along each axis."""
    x, update, *starts = group.anchor.inputs
    found: list[Expr] = []
    for start, extent, size in zip(starts, x.shape, update.shape, strict=True):
        limit = extent - size
        found.append(
            elements.builder.let("start", index_element(elements.at(start, ()), limit))
            if limit != 0
            else build.index(0)
        )
    return found


def place_in(spot: Index, firsts: Sequence[Expr], shape: Shape) -> Expr:
    """The row-major place of an element of the slice in what is updated."""
    place: Expr = build.index(0)
    for entry, first, stride in zip(spot, firsts, row_major(shape), strict=True):
        place = build.add(place, build.mul(build.add(entry, first), stride))
    return place
