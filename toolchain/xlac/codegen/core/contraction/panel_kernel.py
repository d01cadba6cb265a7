"""A kernel that packs the right operand of a contraction into panels at run time."""

from __future__ import annotations

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import Axis, Contraction, offset, unravel
from xlac.codegen.core.contraction.packing import (
    Panels,
    each_panel,
    packed_layout,
    packed_panels,
    panel_count,
)
from xlac.codegen.core.contraction.panel_copy import (
    PanelCopy,
    can_transpose,
    prefetching_pays,
    transposing_pays,
)
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import CHUNKS, SERIAL_WORK, THREAD_WORK, check_threads
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gemm import PackSchedule
from xlac.codegen.schedules.schedule import Misfit, Threads
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr, LoopKind, Work
from xlac_sdk.target import Target


def running(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    c: Contraction,
    tile: RegisterTile,
    dtype: DType,
) -> tuple[KernelLaunch, Panels]:
    """A kernel that packs the operand in every call, and the panels that it writes."""
    own, outer, size = packed_layout(c, tile, dtype)
    scratch = Scratch(dtype, size, "panels")
    elements = Elements(Builder(), group, target)
    kernel = _PanelKernel(elements, c, tile, own, scratch)
    work, trips = size_hint(size), volume(tuple(kernel.loops))
    schedule = _settled(name, target, decisions, c, tile, size_hint(trips), work)
    kernel.write(schedule)
    moved = work * (dtype.nbytes + c.right.dtype.nbytes)
    launch = elements.launch(name, Work(0, moved), "packs the right operand")
    return launch, packed_panels(c, scratch, outer)


def _settled(
    name: str,
    target: Target,
    decisions: Decisions,
    c: Contraction,
    tile: RegisterTile,
    items: int,
    work: int,
) -> PackSchedule:
    """The schedule for `items` panels with `work` elements in total, or the given schedule."""
    parallel = items > 1 and work >= SERIAL_WORK
    grain = max(1, THREAD_WORK * items // max(1, work)) if work >= SERIAL_WORK else 1
    transposed = transposing_pays(c, tile, target) and not target.size
    chosen = PackSchedule(
        transposed,
        transposed and prefetching_pays(c, target),
        Threads(int(parallel), min(grain, max(1, items // CHUNKS))),
    )

    def check(schedule: PackSchedule) -> None:
        if schedule.transposed and not can_transpose(c, tile):
            raise Misfit(("transposed",), "the operand is not contiguous along a summed axis")
        if schedule.prefetch and not schedule.transposed:
            raise Misfit(("prefetch",), "only squares of vectors prefetch")
        check_threads(schedule.threads, 1)

    return decisions.settle(name, chosen, check)


class _PanelKernel:
    """Writes the kernel with the builder of `elements`; `own` are the operand's outer axes."""

    def __init__(
        self,
        elements: Elements,
        c: Contraction,
        tile: RegisterTile,
        own: tuple[Axis, ...],
        scratch: Scratch,
    ) -> None:
        self.elements, self.builder, self.c, self.tile = elements, elements.builder, c, tile
        self.own, self.lanes = own, tile.lanes
        self.to = elements.parameter(scratch, Access.WRITE)
        self.loops: list[Dim] = [*(a.extent for a in own), panel_count(c.columns.extent, tile)]

    def write(self, schedule: PackSchedule) -> None:
        """A loop over panels, which may be parallel."""
        threads, trips = schedule.threads, volume(tuple(self.loops))
        self.copy = PanelCopy(
            self.elements,
            self.c,
            self.tile,
            self.to.dtype,
            transposes=schedule.transposed,
            prefetch=schedule.prefetch,
        )
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        with self.builder.loop("t", 0, trips, kind=kind, grain=threads.grain) as t:
            counters = unravel(self.builder, t, self.loops)

            def panel(column: Expr, vectors: int, partial: build.Number) -> None:
                self._panel(counters, column, vectors, partial)

            each_panel(self.builder, self.c.columns.extent, self.tile, counters[-1], panel)

    def _panel(
        self, counters: list[Expr], column: Expr, vectors: int, partial: build.Number
    ) -> None:
        """One panel; `partial` columns of its last vector are valid, 0 if all are."""
        c, own = self.c, self.own
        per_copy = c.depth * ceil_div(c.columns.extent, self.lanes) * self.lanes
        start = offset(own, counters[:-1], "right", c.right.offset)
        copies = [
            Axis(a.extent, 0, s * per_copy)
            for a, s in zip(own, row_major([a.extent for a in own]), strict=True)
        ]
        place = build.add(offset(copies, counters[:-1], "right"), build.mul(column, c.depth))
        self.copy.write(self.to, start, place, column, vectors, partial)
