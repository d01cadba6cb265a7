"""Scatter on a GPU: a thread for every element of the updates if their order does not matter, else
sorted by position.

Sums of integers, and extremes, do not depend on the order: atomic operations combine them. Nor does
anything with unique positions. For the rest, sums of floats above all, the updates are sorted by
position; the sort is stable, so updates of one position stay in their order, and the thread of the
first of them combines all: the result is deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import scatter
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Value
from xlac.codegen.core.scatter import Updates, all_of
from xlac.codegen.core.scatter_sorted import SortedScatter
from xlac.codegen.gpu.core.grid import check_threads, every, threads_over
from xlac.codegen.gpu.sort.merge_sort import MergeSort
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gpu.threads import GpuScatterSchedule, GpuSortedScatterSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ops import numeric
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
ATOMIC_BYTES = (4, 8)  # bytes of elements that GPUs combine atomically


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A copy of every operand, then the launches for the updates."""
    return scatter.lower(group, target, name, lower_part, _launches)


def _launches(
    group: Group, target: Target, name: str, lower_part: LowerPart, results: Sequence[Value]
) -> list[KernelLaunch]:
    op = group.anchor.op
    assert isinstance(op, Scatter)
    dtype = group.anchor.results[0].dtype
    if op.unique or (dtype in target.dtypes and _in_any_order(op, dtype)):
        elements = Elements(Builder(), group, target)
        _Each(elements, results).write(name, lower_part.decisions)
        return [elements.launch(name, cost.work(group))]
    return _GpuSortedScatter(group, target, results, name, lower_part.decisions).launches(name)


def _in_any_order(op: Scatter, dtype: DType) -> bool:
    """Whether updates of one position may be combined in any order, and atomically."""
    if dtype.nbytes not in ATOMIC_BYTES or dtype is DType.BOOL:
        return False
    return op.combine in ("max", "min") or (op.combine in ("add", "mul") and dtype.is_integer)


class _Each(Updates):
    """Writes the kernel with a thread for every element of the updates."""

    def write(self, name: str, decisions: Decisions) -> None:
        """The block size, by the schedule of the kernel of this name."""
        target, loops = self.elements.target, [Run(n, (a,)) for a, n in enumerate(self.sizes)]

        def check(schedule: GpuScatterSchedule) -> None:
            check_threads(schedule.threads, target)

        chosen = GpuScatterSchedule(threads_over(target, loops))
        threads = decisions.settle(name, chosen, check).threads
        with every(self.builder, target, loops, threads) as counters:
            at = tuple(counters[run] for run in loops)
            if self.op.unique:
                self.update(at, None)
            else:
                self._combine(at)

    def _combine(self, at: tuple[Expr, ...]) -> None:
        place, inside = self.place(at)
        (buffer,), (updates,) = self.buffers, self.updates
        primitive = numeric.COMBINE[self.op.combine]
        if not inside:
            self.builder.store(buffer, place, self.elements.at(updates, at), atomic=primitive)
            return
        with self.builder.when(all_of(inside)):
            self.builder.store(buffer, place, self.elements.at(updates, at), atomic=primitive)


class _GpuSortedScatter(SortedScatter):
    """Sorts by threads; then one thread for each element of the updates of a position."""

    def __init__(
        self,
        group: Group,
        target: Target,
        results: Sequence[Value],
        name: str,
        decisions: Decisions,
    ) -> None:
        super().__init__(group, target, results)
        self.name, self.decisions = name, decisions

    def order(self, name: str) -> list[KernelLaunch]:
        sorter = MergeSort(
            self.group,
            self.target,
            1,
            self.count,
            [DType.I64, DType.I64],
            1,
            self._before,
            self._read,
            self._keep,
        )
        return sorter.launches(name, self.decisions)

    def _before(self, elements: Elements, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        return build.apply(P.LT, a[0], b[0])

    def _read(self, elements: Elements, string: Expr, number: Expr) -> list[Expr]:
        """An update's position, and its number."""
        return [self.place(elements, number), number]

    def _keep(self, elements: Elements, string: Expr, place: Expr, values: Sequence[Expr]) -> None:
        for scratch, value in zip((self.places, self.numbers), values, strict=True):
            elements.store_to(elements.parameter(scratch, Access.WRITE), place, value)

    def combine(self, elements: Elements, updates: Updates) -> None:
        ranks, columns = Run(self.count, ()), [Run(self.sizes[a], (a,)) for a in self.columns]

        def check(schedule: GpuSortedScatterSchedule) -> None:
            check_threads(schedule.threads, self.target)

        chosen = GpuSortedScatterSchedule(threads_over(self.target, [ranks, *columns]))
        threads = self.decisions.settle(self.name, chosen, check).threads
        with every(elements.builder, self.target, [ranks, *columns], threads) as counters:
            rank = counters[ranks]
            with self.first_of_its_place(elements, rank) as place:
                stop = self.stop(elements, rank, place)
                self.gather(
                    elements, updates, rank, stop, place, [counters[run] for run in columns]
                )
