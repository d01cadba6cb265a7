"""Flash attention for many queries: a block holds some rows of queries and iterates over tiles of
keys.

Each warp has 16 rows, multiplied by tensor cores, or by ordinary arithmetic if f32 must not be
rounded. Scores of a tile stay in registers, become weights relative to the maximum score so far,
and are multiplied with the tile's values; earlier sums are rescaled when the maximum changes. Tiles
that causal masking hides are skipped.
"""

from __future__ import annotations

from contextlib import nullcontext

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.contraction import unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.gpu.attention import fragments
from xlac.codegen.gpu.attention.flash_scores import FlashScores, FragmentRow
from xlac.codegen.gpu.attention.flash_tile import F32, tile_of
from xlac.codegen.gpu.attention.fragments import BY_CORES
from xlac.codegen.gpu.core import instructions, pipeline
from xlac.codegen.gpu.core.grid import GridThread, grid
from xlac.codegen.gpu.core.instructions import COLUMNS, ROWS, FragmentOperand, Swizzled
from xlac.codegen.gpu.core.pipeline import Lane
from xlac.codegen.gpu.core.shared_staging import SharedStaging, TileShape
from xlac.codegen.schedules.gpu.attention import FlashAttentionSchedule, FlashStaging
from xlac.codegen.schedules.gpu.gemm import OperandStaging
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, divisor, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def launches(
    group: Group,
    target: Target,
    name: str,
    h: AttentionProblem,
    after: Epilogue,
    schedule: FlashAttentionSchedule,
) -> list[KernelLaunch]:
    """One launch."""
    elements = Elements(Builder(), group, target)
    FlashAttention(elements, after, h, tile_of(schedule, h), target).write(schedule.staging)
    return [elements.launch(name, cost.work(group))]


class FlashAttention(FlashScores):
    """Writes the kernel's body with the builder of `elements`."""

    def write(self, staging: FlashStaging) -> None:
        """A block for some rows of every key head; those that attend to the most keys
        come first.
        """
        self.staging = staging
        h, tile, builder = self.h, self.tile, self.builder
        tiles = ceil_div(h.rows, tile.rows)
        extents = [*h.batch, tiles]
        with grid(builder, self.target, volume(tuple(extents)), tile.warps * self.target.warp) as g:
            *batch, number = unravel(builder, g.block, extents)
            down = build.sub(tiles - 1, number) if h.gap is not None else number
            first = builder.let("first", build.mul(bounded(builder, down, tiles - 1), tile.rows))
            self._thread(g, batch, first)

    def _thread(self, g: GridThread, batch: Counters, first: Expr) -> None:
        h, tile, builder, dtype = self.h, self.tile, self.builder, self.h.dtype
        queries = g.shared("queries", dtype, tile.rows * tile.width)
        memory = [
            g.shared(hint, dtype, tile.stages * tile.keys * n)
            for hint, n in (("keys", tile.width), ("values", tile.wide))
        ]
        shares = g.shared("shares", dtype, tile.rows * tile.keys)
        warp, lane = (
            builder.let("warp", build.div(g.thread, g.warp)),
            builder.let("lane", build.mod(g.thread, g.warp)),
        )
        row = builder.let("row", build.mul(warp, ROWS))
        self._queries(g.thread, batch, first, queries)
        lanes = self._lanes(g.thread, batch, memory)
        scores = builder.local("scores", F32, tile.keys // COLUMNS * 4)
        sums = builder.local("sums", F32, tile.wide // COLUMNS * 4)
        self._clear(sums)
        rows = [
            self._row(
                build.add(build.add(first, row), build.add(build.div(lane, 4), half * 8)), half
            )
            for half in range(2)
        ]
        column = builder.let("column", BY_CORES.first(lane))

        def multiply(k: Expr, starts: list[Expr]) -> None:
            self._clear(scores)
            left = FragmentOperand(queries, build.index(0), row, self.by_query)
            right = FragmentOperand(memory[0], starts[0], build.index(0), self.by_query)
            if self.by_cores:
                fragments.by_cores(builder, scores, left, right, tile.width, lane, tile.keys)
            else:
                fragments.along_depth(
                    builder, self.target, scores, left, right, tile.width, lane, tile.keys
                )
            self._mask(scores, rows, batch, first, k, column)
            for one in rows:
                place = build.add(row, build.add(build.div(lane, 4), one.half * 8))
                self._weigh(scores, sums, one, shares, place, column)
            builder.emit(instructions.warp_barrier())
            left = FragmentOperand(shares, build.index(0), row, self.of_weights)
            right = FragmentOperand(memory[1], starts[1], build.index(0), self.by_key[1])
            if self.by_cores:
                fragments.by_cores(builder, sums, left, right, tile.keys, lane, tile.wide)
            else:
                fragments.across(
                    builder, self.target, sums, left, right, tile.keys, lane, tile.wide
                )

        start, end = build.index(0), self._end(first)
        pipeline.run(
            builder, self.target, lanes, start, end, tile.keys, tile.stages, multiply, h.length
        )
        self._store(sums, rows, batch, builder.let("column", self.pairs.first(lane)))

    # ---- memory ------------------------------------------------------------------------------

    def _lanes(self, thread: Expr, batch: Counters, memory: list[Buffer]) -> list[Lane]:
        """The staging of key and value tiles to SHARED memory."""
        h, tile, lanes = self.h, self.tile, []
        for how, side, layout, buffer, width in zip(
            (self.staging.keys, self.staging.values),
            (h.keys, h.values),
            self.by_key,
            memory,
            (tile.width, tile.wide),
            strict=True,
        ):
            staging = self._staging(how, side, (h.length,), width, tile.keys, layout)
            staging.begin(thread, build.index(0), batch)
            lanes.append(Lane(staging, buffer, tile.keys * width))
        return lanes

    def _staging(
        self,
        how: OperandStaging,
        side: MatrixOperand,
        depths: tuple[Dim],
        span: int,
        step: int,
        layout: Swizzled,
    ) -> SharedStaging:
        return SharedStaging(
            self.elements,
            side,
            depths,
            TileShape(span, step, how.lanes, how.along == "depth"),
            self.h.dtype,
            self.tile.warps * self.target.warp,
            layout,
            how.asynchronous,
        )

    def _queries(self, thread: Expr, batch: Counters, first: Expr, buffer: Buffer) -> None:
        """Stages the block's queries; they are complete when the first keys are."""
        start = build.index(0)
        staging = self._staging(
            self.staging.queries,
            self.h.queries,
            (self.h.widths[0],),
            self.tile.rows,
            self.tile.width,
            self.by_query,
        )
        staging.begin(thread, first, batch)
        if staging.asynchronous:
            staging.send(start, buffer, start)
        else:
            staging.put(staging.fetch(start, beyond=False), buffer, start)

    def _end(self, first: Expr) -> build.Number:
        """The end of the block's keys: the last key, or the last that its last row may
        attend to.
        """
        h, keys = self.h, self.tile.keys
        whole = ceil_div(h.length, keys) * keys
        # all rows of the block are of one head
        within = h.shared == 1 or divisor(h.time) % self.tile.rows == 0
        if h.gap is None or not h.sees_start or not within:
            return whole
        time = build.mod(first, h.time) if h.shared > 1 else first
        seen = build.mul(build.div(build.add(time, self.tile.rows + h.gap + keys - 1), keys), keys)
        return bounded(self.builder, build.apply(P.MIN, seen, build.lift(whole)), whole)

    def _clear(self, buffer: Buffer) -> None:
        with self.builder.loop("z", 0, buffer.size, 2, kind=LoopKind.UNROLLED) as z:
            self.builder.store(buffer, z, zero(F32, 2))

    # ---- scores and weights ------------------------------------------------------------------

    def _store(self, sums: Buffer, rows: list[FragmentRow], batch: Counters, column: Expr) -> None:
        builder = self.builder
        for row in rows:
            weight = self._among_four(P.ADD, row.weight)
            with builder.when(row.inside) if row.inside is not None else nullcontext():
                for pair in range(self.tile.wide // COLUMNS):
                    value = build.apply(
                        P.DIV,
                        build.load(sums, self.pairs.place(pair, row.half), 2),
                        build.splat(weight, 2),
                    )
                    self._pair(
                        batch,
                        row,
                        build.add(column, self.pairs.offset(pair)),
                        self.pairs.end(pair),
                        builder.let("value", value),
                    )

    def _pair(self, batch: Counters, row: FragmentRow, column: Expr, end: int, value: Expr) -> None:
        """Stores two neighbours of a row from a column on, if they are before the end, which may be
        None.
        """
        h, width = self.h, self.h.widths[1]

        def store(where: Expr, part: Expr) -> None:
            self.after.store(self.elements, h.place(batch, row.number, where), part)

        if end <= width:
            store(build.ramp(column, 1, 2), value)
            return
        for lane in range(2):
            one = build.add(column, lane)
            with self.builder.when(build.apply(P.LT, one, build.index(width))):
                store(one, Shuffle((value,), (lane,)))
