"""Matrix products on a GPU's ordinary arithmetic: a tile for each block, vectors of results in each
thread's registers.

The block's tiles of both operands are in SHARED memory, one step of the sum after another, so that
a thread reads vectors of rows and of columns. The epilogue works on the sums in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from xlac.codegen.core.contraction.contraction import multiply_add, zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.summation import Pair
from xlac.codegen.gpu.core import pipeline
from xlac.codegen.gpu.core.pipeline import Lane
from xlac.codegen.gpu.core.shared_staging import SharedStaging, TileShape
from xlac.codegen.gpu.gemm.block_tiling import BlockTile
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore, Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.tile_blocks import tile_blocks
from xlac.codegen.schedules.gpu.gemm import SimtGemmSchedule
from xlac.ir.dims import ceil_div, divisor, upper_bound
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind, Shuffle, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

LONG = 4096  # products in whole tiles that are summed without compensation
# tiles of each operand: one is multiplied while the next is loaded to registers
STAGES = 2


class SimtGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Stores,
        p: MatrixProduct,
        tile: BlockTile,
        target: Target,
        schedule: SimtGemmSchedule,
    ) -> None:
        self.elements, self.builder, self.after = elements, elements.builder, after
        self.p, self.tile, self.target = p, tile, target
        self.schedule, self.pitches = schedule, schedule.pitches

    def write(self) -> None:
        """One block for each tile of each product in the batch."""
        p, tile = self.p, self.tile
        spans = tile.rows, tile.columns
        memory = [(p.accumulate, self.schedule.stages * tile.step * n) for n in self.pitches]
        with tile_blocks(self.builder, self.target, p, spans, tile.threads, memory) as here:
            self._thread(*here)

    def _thread(
        self, thread: Expr, batch: Counters, first: tuple[Expr, Expr], memory: list[Buffer]
    ) -> None:
        p, tile, builder = self.p, self.tile, self.builder
        warp, lane = (
            builder.let("warp", build.div(thread, self.target.warp)),
            builder.let("lane", build.mod(thread, self.target.warp)),
        )
        inside = build.div(lane, tile.lanes[1]), build.mod(lane, tile.lanes[1])
        which = build.div(warp, tile.warps[1]), build.mod(warp, tile.warps[1])
        spans = tile.rows // tile.warps[0], tile.columns // tile.warps[1]
        row, column = (
            builder.let(hint, build.add(build.mul(w, span), build.mul(at, tile.vector)))
            for hint, w, span, at in zip("mn", which, spans, inside, strict=True)
        )
        lanes = self._lanes(thread, batch, first, memory)
        sums = self._sums()
        pairs = (
            [[Pair.of(builder, high) for high in row] for row in self._sums()]
            if self._is_long()
            else []
        )

        def join() -> None:
            for pair, total in zip(chain(*pairs), chain(*sums), strict=True):
                pair.add(total)
                builder.assign(total, zero(p.accumulate, tile.vector))

        def multiply(k: Expr, starts: list[Expr]) -> None:
            if pairs:
                some = build.apply(Primitive.LT, build.index(0), k)
                with builder.when(
                    build.apply(
                        Primitive.AND,
                        some,
                        build.apply(Primitive.EQ, build.mod(k, LONG), build.index(0)),
                    )
                ):
                    join()
            with builder.loop("s", 0, tile.step, kind=LoopKind.UNROLLED) as s:
                at = [
                    build.add(start, build.mul(s, pitch))
                    for start, pitch in zip(starts, self.pitches, strict=True)
                ]
                self._step(sums, memory, (build.add(at[0], row), build.add(at[1], column)))

        end = ceil_div(p.depth, tile.step) * tile.step
        stages = self.schedule.stages
        pipeline.run(
            builder, self.target, lanes, build.index(0), end, tile.step, stages, multiply, p.depth
        )
        totals: Sequence[Sequence[Expr]] = sums
        if pairs:
            join()
            totals = [[builder.let("whole", pair.total()) for pair in row] for row in pairs]
        self._store(batch, build.add(first[0], row), build.add(first[1], column), totals)

    def _lanes(
        self, thread: Expr, batch: Counters, first: tuple[Expr, Expr], memory: list[Buffer]
    ) -> list[Lane]:
        """The staging of the tiles of both operands in SHARED memory."""
        p, tile, s = self.p, self.tile, self.schedule
        lanes = []
        sides = (p.rows, tile.rows, s.left), (p.columns, tile.columns, s.right)
        for number, (side, span, how) in enumerate(sides):
            staging = SharedStaging(
                self.elements,
                side,
                p.depths,
                TileShape(span, tile.step, how.lanes, how.along == "depth"),
                p.accumulate,
                tile.threads,
                Pitched(self.pitches[number]),
                how.asynchronous,
            )
            staging.begin(thread, first[number], batch)
            lanes.append(Lane(staging, memory[number], tile.step * self.pitches[number]))
        return lanes

    def _is_long(self) -> bool:
        """Whether partial sums are added to compensated pairs, every few thousand products."""
        return upper_bound(self.p.depth) > LONG and self.p.accumulate.is_float

    def _sums(self) -> list[list[Var]]:
        tile = self.tile
        return [
            [
                self.builder.variable("sum", zero(self.p.accumulate, tile.vector))
                for _ in range(tile.pieces[1])
            ]
            for _ in range(tile.pieces[0] * tile.vector)
        ]

    def _step(self, sums: list[list[Var]], memory: list[Buffer], at: tuple[Expr, Expr]) -> None:
        """One step of the sum: the outer product of a thread's rows and columns."""
        tile, builder = self.tile, self.builder
        align = tile.vector * self.p.accumulate.nbytes

        def vectors(number: int, hint: str) -> list[Expr]:
            apart = tile.lanes[number] * tile.vector
            where = (build.add(at[number], piece * apart) for piece in range(tile.pieces[number]))
            return [
                builder.let(hint, build.load(memory[number], w, tile.vector, align=align))
                for w in where
            ]

        lefts, rights = vectors(0, "x"), vectors(1, "w")
        for i, totals in enumerate(sums):
            left = lefts[i // tile.vector]
            one = Shuffle((left,), (i % tile.vector,)) if tile.vector > 1 else left
            wide = builder.let("one", build.splat(one, tile.vector))
            for right, total in zip(rights, totals, strict=True):
                builder.assign(total, multiply_add(self.target, wide, right, total))

    def _store(
        self, batch: Counters, row: Expr, column: Expr, sums: Sequence[Sequence[Expr]]
    ) -> None:
        p, tile, vector = self.p, self.tile, self.tile.vector

        def rows(i: build.Number) -> Expr:
            return build.add(
                row,
                build.add(
                    build.mul(build.div(i, vector), tile.lanes[0] * vector), build.mod(i, vector)
                ),
            )

        def columns(j: build.Number) -> Expr:
            return build.add(column, build.mul(j, tile.lanes[1] * vector))

        tall, wide = (
            divisor(p.rows.size) % tile.rows != 0,
            divisor(p.columns.size) % tile.columns != 0,
        )
        results = EpilogueStore(
            self.elements, self.after, p, batch, tall, wide, self.schedule.epilogue_loop
        )
        results.store(rows, columns, sums)


@dataclass(frozen=True, slots=True)
class Pitched:
    """A tile layout with a row for each step of the sum, `pitch` elements apart."""

    pitch: int
    along_depth: bool = False

    def place(self, at: Expr, step: Expr) -> Expr:
        """The offset of the element at a position along the side and a step of the sum."""
        return build.add(build.mul(step, self.pitch), at)
