"""A slice replaced: what is updated stays in its memory where nobody else needs it, and only the
slice is written.

The starts are clamped once a thread; the innermost axis of the slice, which lies contiguous, is a
vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds import update
from xlac.codegen.core.loop_nest import parallel_loops, pieces_of
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import lanes_for, strip_mine
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import divisor, size_hint, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

PIECE = 64  # vectors of a row that a thread takes at once


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of the operand, unless it is there already, then one launch for the slice."""
    return update.lower(group, target, name, lower_part, _write)


def _write(elements: Elements, group: Group, new: Group, target: Target) -> None:
    builder, anchor = elements.builder, group.anchor
    x, value, *starts = anchor.inputs
    shape, sizes = x.shape, value.shape
    buffer = update.updated(elements)
    width = sizes[-1] if sizes else volume(())
    dtypes = [n.type.dtype for n in (value, *new.nodes) if n not in starts]
    lanes = lanes_for(target, dtypes, width)
    block = min(lanes * PIECE, max(1, -(-size_hint(width) // lanes)) * lanes)
    loops = [Run(extent, (axis,)) for axis, extent in enumerate(sizes[:-1])]
    pieces = pieces_of(width, block)
    each = block * (1 + cost.weight(value.op))
    with parallel_loops(builder, target, [*loops, pieces], each) as counters:
        firsts = update.clamped_starts(elements, group)
        before = tuple(counters[run] for run in loops)
        base = build.mul(counters[pieces], block)
        length: build.Number = block if divisor(width) % block == 0 else width
        if pieces.extent != 1 and divisor(width) % block:
            stop = build.apply(Primitive.MIN, build.add(base, block), build.lift(width))
            length = builder.let("length", build.sub(stop, base))

        def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            for at in bases:
                spot = (*before, build.ramp(at, 1, wide))[: len(sizes)]
                place = update.place_in(spot, firsts, shape)
                if mask is None:
                    elements.store_to(buffer, place, elements.at(value, spot))
                else:
                    with elements.masked(mask):
                        elements.store_to(buffer, place, elements.at(value, spot))

        strip_mine(builder, target, base, length, lanes, 1, strip)
