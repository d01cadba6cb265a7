"""dynamic_update_slice: the operand is updated in place if nothing else needs it, so that only the
slice is written.

The starts are clamped once per thread; the innermost axis of the slice, which is contiguous, is a
vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds import update
from xlac.codegen.core.loop_nest import check_threads, nest, pieces_of, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.update import UpdateSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

PIECE = 64  # vectors of a row in a piece of work for a thread


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of the operand, unless it can be updated in place, then one launch for the slice."""
    return update.lower(group, target, name, lower_part, _write)


def _choose(group: Group, new: Group, loops: Sequence[Run], target: Target) -> UpdateSchedule:
    """Pieces of rows that are enough work for a thread."""
    _, value, *starts = group.anchor.inputs
    width = _width(value)
    dtypes = [n.type.dtype for n in (value, *new.nodes) if n not in starts]
    lanes = lanes_for(target, dtypes, width)
    piece = min(PIECE, max(1, -(-size_hint(width) // lanes)))
    pieces = pieces_of(width, lanes * piece)
    threads = share(target, [*loops, pieces], lanes * piece * (1 + cost.weight(value.op)))
    return UpdateSchedule(lanes, piece, threads)


def _width(value: Node) -> Dim:
    """Elements of a row of the slice."""
    return value.shape[-1] if value.shape else volume(())


def _write(elements: Elements, new: Group, name: str, decisions: Decisions) -> None:
    builder, group, target = elements.builder, elements.group, elements.target
    x, value = group.anchor.inputs[:2]
    shape, sizes, width = x.shape, value.shape, _width(value)
    buffer = update.updated(elements)
    loops = [Run(extent, (axis,)) for axis, extent in enumerate(sizes[:-1])]

    def check(schedule: UpdateSchedule) -> None:
        check_vectors(schedule.lanes, 1, False, target)
        check_threads(schedule.threads, len(loops) + 1)

    schedule = decisions.settle(name, _choose(group, new, loops, target), check)
    lanes, block = schedule.lanes, schedule.lanes * schedule.piece
    pieces = pieces_of(width, block)
    with nest(builder, [*loops, pieces], schedule.threads) as counters:
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
