"""A kernel that packs the right operand of a contraction into panels at run time."""

from __future__ import annotations

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction import byte_words
from xlac.codegen.core.contraction.byte_words import BYTES
from xlac.codegen.core.contraction.contraction import Axis, Contraction, offset, unravel, zero
from xlac.codegen.core.contraction.packing import (
    TURNED,
    Panels,
    each_panel,
    packed_layout,
    packed_panels,
    panel_count,
    transposed,
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
    schedule = _settled(name, target, decisions, kernel.transposes, size_hint(trips), work)
    kernel.write(schedule)
    moved = work * (dtype.nbytes + c.right.dtype.nbytes)
    launch = elements.launch(name, Work(0, moved), "packs the right operand")
    return launch, packed_panels(c, scratch, outer)


def _settled(
    name: str, target: Target, decisions: Decisions, transposes: bool, items: int, work: int
) -> PackSchedule:
    """The schedule for `items` panels with `work` elements in total, or the given schedule."""
    parallel = items > 1 and work >= SERIAL_WORK
    grain = max(1, THREAD_WORK * items // max(1, work)) if work >= SERIAL_WORK else 1
    chosen = PackSchedule(
        transposes and not target.size, Threads(int(parallel), min(grain, max(1, items // CHUNKS)))
    )

    def check(schedule: PackSchedule) -> None:
        if schedule.transposed and not transposes:
            raise Misfit(("transposed",), "the operand is not contiguous along the summed axis")
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
        self.own, self.dtype, self.lanes = own, scratch.dtype, tile.lanes
        self.to = elements.parameter(scratch, Access.WRITE)
        self.source = elements.parameter(c.right.value, Access.READ)
        self.loops: list[Dim] = [*(a.extent for a in own), panel_count(c.columns.extent, tile)]

    @property
    def transposes(self) -> bool:
        """Whether squares of vectors can be read along the summed axis and transposed in
        registers.
        """
        c, lanes = self.c, self.lanes
        near = c.inner[-1].right == BYTES if c.word else c.inner[-1].right == 1
        apart = not c.word or c.word == 1
        return near and apart and c.columns.right != 1 and 1 < lanes <= TURNED

    def write(self, schedule: PackSchedule) -> None:
        """A loop over panels, which may be parallel."""
        threads, trips = schedule.threads, volume(tuple(self.loops))
        self.schedule = schedule
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
        to = build.add(offset(copies, counters[:-1], "right"), build.mul(column, c.depth))
        self._steps(0, build.add(start, build.mul(column, c.columns.right)), to, vectors, partial)

    def _steps(
        self, level: int, where: Expr, to: Expr, vectors: int, partial: build.Number
    ) -> None:
        """The loops over the summed axes from a level on."""
        builder, c, lanes = self.builder, self.c, self.lanes
        if level == len(c.inner):
            for j in range(vectors):
                self._move(where, to, j, partial if j == vectors - 1 else 0)
            return
        axis, stride = c.inner[level], row_major([a.extent for a in c.inner])[level]
        turned: Dim = 0
        if self.schedule.transposed and level == len(c.inner) - 1 and isinstance(partial, int):
            turned = axis.extent // lanes * lanes
            with builder.loop("k", 0, turned, lanes) as k:
                to_here = build.add(to, build.mul(k, vectors * lanes))
                here = build.add(where, build.mul(k, axis.right))
                self._transpose(here, to_here, vectors, partial)
        with builder.loop("k", turned, axis.extent) as k:
            self._steps(
                level + 1,
                build.add(where, build.mul(k, axis.right)),
                build.add(to, build.mul(k, stride * (vectors * lanes))),
                vectors,
                partial,
            )

    def _transpose(self, where: Expr, to: Expr, vectors: int, partial: int) -> None:
        """Packs as many steps of the sum as a vector has lanes: columns are read along the sum and
        transposed in registers, a square at a time, in a loop (a square alone is a hundred
        instructions).
        """
        builder, side = self.builder, self.lanes
        whole = vectors - bool(partial)
        apart = build.mul(self.c.columns.right, side)
        if whole > 1:
            with builder.loop("j", 0, whole) as j:
                here, there = build.mul(j, apart), build.mul(j, side)
                self._square(build.add(where, here), build.add(to, there), vectors, side)
        elif whole:
            self._square(where, to, vectors, side)
        if partial:
            here = build.add(where, build.mul(apart, whole))
            self._square(here, build.add(to, whole * side), vectors, partial)

    def _square(self, where: Expr, to: Expr, vectors: int, columns: int) -> None:
        """Packs one vector of each of these steps: `columns` of its lanes, and zeros beyond."""
        builder, lanes, apart = self.builder, self.lanes, self.c.columns.right
        along = [
            builder.let("x", self._along(build.add(where, build.mul(apart, i))))
            if i < columns
            else zero(self.dtype, lanes)
            for i in range(lanes)
        ]
        for step, row in enumerate(transposed(builder, along)):
            place = build.add(to, step * vectors * lanes)
            builder.store(self.to, build.ramp(place, 1, lanes), row)

    def _along(self, where: Expr) -> Expr:
        """As many neighbours along the sum as there are lanes."""
        if self.c.word:
            return byte_words.loaded(self.source, where, 1, BYTES, self.lanes)
        return build.cast(build.load(self.source, where, self.lanes), self.dtype)

    def _columns(self, where: Expr, lanes: int) -> Expr:
        """One element of each of some columns."""
        apart = self.c.columns.right
        if self.c.word:
            return byte_words.loaded(self.source, where, self.c.word, apart, lanes)
        if lanes == 1:
            return build.cast(build.load(self.source, where), self.dtype)
        index = build.add(where, build.mul(build.ramp(0, 1, lanes), apart))
        return build.cast(build.load(self.source, index), self.dtype)

    def _move(self, where: Expr, to: Expr, j: int, left: build.Number) -> None:
        """Copies one vector of one step: `left` of its columns, all if 0."""
        builder, lanes, dtype, apart = self.builder, self.lanes, self.dtype, self.c.columns.right
        at = build.add(where, apart * (j * lanes))
        place = build.add(to, j * lanes)
        if left == 0:
            builder.store(self.to, build.ramp(place, 1, lanes), self._columns(at, lanes))
            return
        if not isinstance(left, int):
            with builder.loop("n", 0, left) as n:
                value = self._columns(build.add(at, build.mul(n, apart)), 1)
                builder.store(self.to, build.add(place, n), value)
            with builder.loop("n", left, lanes) as n:
                builder.store(self.to, build.add(place, n), zero(dtype, 1))
            return
        for lane in range(left):
            value = self._columns(build.add(at, apart * lane), 1)
            builder.store(self.to, build.add(place, lane), value)
        for lane in range(left, lanes):
            builder.store(self.to, build.add(place, lane), zero(dtype, 1))
