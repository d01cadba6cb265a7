"""Split reductions on a GPU, for few results and many elements: several blocks share every result.

The blocks store partial results in scratch memory, and the last of them combines these, or a second
launch if the target has no atomic counters. The number of pieces depends on the target and the
shapes only, so results do not differ from call to call.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.core.access_analysis import Run, expand
from xlac.codegen.core.accumulators import Accumulator
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import LoweredGroup, Scratch
from xlac.codegen.core.reduction_plan import ReductionPass
from xlac.codegen.gpu.reduction.combine_partials import place_of_part
from xlac.codegen.gpu.reduction.rows import RowBlocks
from xlac.codegen.schedules.gpu.reduction import CombineKernel, GpuSplitReductionSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.target import Target


def lower(
    group: Group, target: Target, name: str, rows: RowBlocks, schedule: GpuSplitReductionSchedule
) -> LoweredGroup:
    """One launch, or two, written by `rows` with a schedule that splits rows."""
    rows.write()
    if schedule.combine is None:
        return LoweredGroup((rows.elements.launch(name, cost.work(group)),))
    combine = _CombineBlocks(Elements(Builder(), group, target), rows.space)
    combine.follow(schedule)
    combine.take(rows, schedule.combine)
    combine.write()
    parts = rows.elements.launch(f"{name}_parts", cost.work(group))
    return LoweredGroup((parts, combine.elements.launch(name)), tuple(combine.in_place()))


class _CombineBlocks(RowBlocks):
    """Combines the partial results and computes the nodes that follow: several threads share each
    result.
    """

    def take(self, rows: RowBlocks, how: CombineKernel) -> None:
        """Takes over the scratch memory of the first launch."""
        self.parts: Mapping[Node, Scratch] = rows.scratch
        self.lanes, self.vectors, self.row_vectors = 1, rows.pieces, rows.pieces
        self.rows = volume(tuple(r.extent for r in self.kept))
        self._share(how.width, how.threads)
        self.pieces = 1

    def _row(self, counters: Mapping[Run, Expr]) -> None:
        kept = expand(counters, self.space.shape)
        (one,) = self.plan.passes
        gathered = {
            r: Accumulator(self.elements, r, 1, 1, long=self._is_long()) for r in one.reductions
        }
        for vectors in self._visits(list(gathered.values())):
            for piece, guard in vectors:
                with self.elements.guarded(guard):
                    self._take_parts(one, gathered, piece, kept)
        self._finish_pass(one, gathered, kept)
        self.store_results(kept)

    def _take_parts(
        self,
        one: ReductionPass,
        gathered: Mapping[Node, Accumulator],
        piece: Expr,
        kept: tuple[Expr, ...],
    ) -> None:
        for r in one.reductions:
            buffer = self.elements.parameter(self.parts[r], Access.READ)
            value = self.builder.let(
                "part", self.elements.load(buffer, place_of_part(self.space, piece, kept))
            )
            gathered[r].add(0, [value], 1, self.elements.guard)
