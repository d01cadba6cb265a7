"""Partial results of a split reduction in memory, and their combination by the last block."""

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
    """The offset of a partial result: pieces are consecutive, each with all results."""
    kept = tuple(entry for axis, entry in enumerate(index) if axis not in space.reduced)
    return build.add(
        build.mul(piece, volume(space.kept)), linear(kept, row_major(space.kept), space.kept)
    )


def store(rows: RowBlocks, totals: Mapping[Node, Sequence[Expr]], kept: Index) -> None:
    """Stores a block's partial results, by one thread for each."""
    with rows.only(rows.firsts()):
        for r, (value,) in totals.items():
            buffer = rows.elements.parameter(
                rows.scratch[r], Access.REREAD if rows.finishes else Access.WRITE
            )
            rows.elements.store_to(buffer, place_of_part(rows.space, rows.piece, kept), value)
        if rows.finishes:
            rows.builder.emit(arrival_counter.fence())


def finish(rows: RowBlocks, one: ReductionPass, kept: Index) -> None:
    """The last of the blocks that share results combines the partial results and computes the nodes
    that follow.
    """
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
