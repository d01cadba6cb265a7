"""Elementwise groups: loops over the outputs' elements, each computed independently.

Axes are merged where every operand allows it, the innermost loop is a vector loop over the axis
along which the output is contiguous, and the outermost is parallel if there is enough work. A
concatenation is written piece by piece, so that no element has to test which piece it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xlac.codegen.core import square_loads
from xlac.codegen.core.access_analysis import Run, Survey, Surveyor, expand, merged
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.elementwise import Job, jobs, overwritten, store
from xlac.codegen.core.loop_nest import bounded, nest, piece, pieces_of
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.core.seams.woven_stores import WIDTH as WOVEN
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.cpu.elementwise_choice import check, choose
from xlac.codegen.schedules.elementwise import Nest, TransposedBlocks
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, divisor, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

AHEAD = 2  # cache lines by which rows are prefetched


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch for a group of one shape; in a group of several shapes, one for each large nest
    and one for every few small ones.
    """
    jobs_of_group = [job for job in jobs(group, WOVEN) if volume(job.shape) != 0]
    dry = [_surveyed(group, target, job) for job in jobs_of_group]
    surveyed = [(job, survey) for job, (_, survey) in zip(jobs_of_group, dry, strict=True)]
    chosen = lower_part.decisions.settle(
        name, choose(surveyed, group, target), partial(check, jobs=surveyed, target=target)
    )
    launches: list[KernelLaunch] = []
    nests = list(zip(surveyed, chosen.nests, strict=True))
    for first in range(0, len(nests), chosen.nests_per_kernel):
        elements = Elements(Builder(), group, target)
        for (job, survey), how in nests[first : first + chosen.nests_per_kernel]:
            _Writer(elements, job, survey, how).write()
        number = first // chosen.nests_per_kernel
        launches.append(elements.launch(f"{name}_{number}" if number else name, cost.work(group)))
    return LoweredGroup(tuple(launches), tuple(overwritten(dry)))


def _surveyed(group: Group, target: Target, job: Job) -> tuple[Elements, Survey]:
    dry = Surveyor(Elements(Builder(), group, target), job.shape)
    store(dry.elements, dry.index, job.stores, streaming=False)
    return dry.elements, dry.survey()


class _Writer:
    """Writes one loop nest by its schedule."""

    def __init__(self, elements: Elements, job: Job, survey: Survey, how: Nest) -> None:
        self.elements, self.builder, self.job, self.how = elements, elements.builder, job, how
        self.loops = merged(job.shape, survey, how.loops)

    def write(self) -> None:
        """All loops, from the outermost."""
        builder, how = self.builder, self.how
        if not self.loops:
            store(self.elements, expand({}, self.job.shape), self.job.stores, streaming=False)
            return
        inner = self.loops[how.vector]
        around = [run for run in self.loops if run is not inner]
        if how.blocks:
            self._blocked(inner, self.loops[how.blocks.across], around, how.blocks)
            return
        if how.chunk:
            pieces = pieces_of(inner.extent, how.chunk)
            with nest(builder, [*around, pieces], how.threads) as counters:
                start = build.mul(counters.pop(pieces), how.chunk)
                self._strip(counters, start, piece(builder, start, inner.extent, how.chunk))
            return
        with nest(builder, around, how.threads) as counters:
            self._strip(counters, 0, inner.extent)

    def _strip(self, counters: dict[Run, Expr], start: build.Number, length: build.Number) -> None:
        """A range of the vector loop."""
        elements, how, shape = self.elements, self.how, self.job.shape
        inner = self.loops[how.vector]

        def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            with elements.masked(mask):
                for base in bases:
                    at = expand({**counters, inner: build.ramp(base, 1, wide)}, shape)
                    past = how.streaming and mask is None and wide >= how.lanes > 1
                    store(elements, at, self.job.stores, streaming=past)

        strips = partial(strip_mine, self.builder, elements.target, start, length, how.lanes)
        strips(how.unroll, body, how.join, narrow=True)

    def _blocked(
        self, inner: Run, crossed: Run, around: Sequence[Run], blocks: TransposedBlocks
    ) -> None:
        """A transposition, in square blocks that stay in the cache: some operands are contiguous
        along one axis, some along the other.
        """
        builder, side = self.builder, blocks.side
        rest = [run for run in around if run is not crossed]
        down, across = pieces_of(crossed.extent, side), pieces_of(inner.extent, side)
        with nest(builder, [*rest, down, across], self.how.threads) as counters:
            top, left = build.mul(counters.pop(down), side), build.mul(counters.pop(across), side)
            bottom = _end(builder, top, crossed.extent, side)
            if blocks.in_registers:
                right = _end(builder, left, inner.extent, side)
                self._squares(counters, crossed, (top, bottom), inner, (left, right))
                return
            with builder.loop("t", top, bottom) as row:
                counters[crossed] = row
                if divisor(inner.extent) % side:
                    end = _end(builder, left, inner.extent, side)
                    self._strip(counters, left, build.sub(end, left))
                else:
                    self._strip(counters, left, side)

    def _squares(
        self,
        counters: dict[Run, Expr],
        crossed: Run,
        rows: tuple[Expr, Expr],
        inner: Run,
        columns: tuple[Expr, Expr],
    ) -> None:
        """A block in squares, and its remainder by rows."""
        builder, lanes, (left, right) = self.builder, self.how.lanes, columns
        last_row, last_column = _whole(rows[1], crossed, lanes), _whole(right, inner, lanes)
        with (
            builder.loop("t", rows[0], last_row, lanes) as row,
            builder.loop("i", left, last_column, lanes) as column,
        ):
            self._square(counters, crossed, row, inner, column)
        if divisor(inner.extent) % lanes:
            with builder.loop("t", rows[0], last_row) as row:
                self._strip({**counters, crossed: row}, last_column, build.sub(right, last_column))
        if divisor(crossed.extent) % lanes:
            with builder.loop("t", last_row, rows[1]) as row:
                self._strip({**counters, crossed: row}, left, build.sub(right, left))

    def _square(
        self, counters: dict[Run, Expr], crossed: Run, row: Expr, inner: Run, column: Expr
    ) -> None:
        """A square of as many rows and columns as a vector has lanes, stored by rows; operands that
        are contiguous along columns are transposed in registers.
        """
        elements, shape, lanes = self.elements, self.job.shape, self.how.lanes
        with self.builder.block() as rows:
            for i in range(lanes):
                place = {crossed: build.add(row, i), inner: build.ramp(column, 1, lanes)}
                at = expand({**counters, **place}, shape)
                store(elements, at, self.job.stores, streaming=False)
        assert self.how.blocks is not None
        line = elements.target.hardware.line_bytes
        ahead = AHEAD * line if self.how.blocks.prefetch else 0
        square_loads.emit(self.builder, rows, lanes, ahead)


def _whole(stop: Expr, run: Run, lanes: int) -> Expr:
    """The end of the last whole square of a block."""
    return stop if divisor(run.extent) % lanes == 0 else build.mul(build.div(stop, lanes), lanes)


def _end(builder: Builder, start: Expr, extent: Dim, side: int) -> Expr:
    """The end of a block, clipped at the end of the axis."""
    stop = build.add(start, side)
    if divisor(extent) % side == 0:
        return stop
    return bounded(builder, build.apply(Primitive.MIN, stop, build.lift(extent)), extent)
