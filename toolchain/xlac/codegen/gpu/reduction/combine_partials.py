"""What the blocks that have pieces of a reduction leave in memory, and how the last of them
finishes the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xlac.codegen.core.accumulators import Accumulator
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.reduction_plan import ReductionPass, ReductionSpace
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr

if TYPE_CHECKING:
    from xlac.codegen.gpu.reduction.rows import RowBlocks


def place_of_part(space: ReductionSpace, piece: Expr, index: Index) -> Expr:
    """Where a part of a result lies: pieces one after another, each with all results."""
    kept = tuple(entry for axis, entry in enumerate(index) if axis not in space.reduced)
    return build.add(
        build.mul(piece, volume(space.kept)), linear(kept, row_major(space.kept), space.kept)
    )


def store(rows: RowBlocks, totals: Mapping[Node, Sequence[Expr]], kept: Index) -> None:
    """What a block adds to its results, by one thread of each."""
    with rows.only(rows.firsts()):
        for r, (value,) in totals.items():
            buffer = rows.elements.parameter(
                rows.scratch[r], Access.REREAD if rows.finishes else Access.WRITE
            )
            rows.elements.store_to(buffer, place_of_part(rows.space, rows.piece, kept), value)
        if rows.finishes:
            rows.builder.emit(arrival_counter.fence())


def finish(rows: RowBlocks, one: ReductionPass, kept: Index) -> None:
    """The last block of those that share some results combines the parts and does what follows."""
    elements = rows.elements
    with arrival_counter.last(elements, rows.here, *rows.shared_result, rows.pieces):
        gathered = {
            r: Accumulator(elements, r, rows.part_lanes, 1, long=True) for r in one.reductions
        }
        guard = None if elements.guard is None else build.splat(elements.guard, rows.part_lanes)
        with rows.builder.loop("part", rows.lane, rows.pieces, rows.width) as piece:
            for r, accumulator in gathered.items():
                part = elements.load(
                    elements.parameter(rows.scratch[r]), place_of_part(rows.space, piece, kept)
                )
                with accumulator.block():
                    accumulator.add(0, [part], rows.part_lanes, guard)
        rows.deliver(one, gathered, kept)
        rows.store_results(kept)
