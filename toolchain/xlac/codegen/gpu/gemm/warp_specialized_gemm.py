"""Warp-specialized matrix products of 16-bit floats on Hopper.

One producer thread starts TMA copies of tiles, several stages ahead; warpgroups multiply the tiles
that have arrived, and release their memory. They synchronize by barriers in SHARED memory instead
of block-wide ones. A block is persistent and computes one tile of the result after another: while
its warps store one, tiles for the next are being copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import unravel, zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.core import instructions, tma
from xlac.codegen.gpu.core.grid import GridThread, grid
from xlac.codegen.gpu.core.instructions import COLUMNS, GROUP, LANES, ROWS, FragmentOperand
from xlac.codegen.gpu.core.tma import Barriers
from xlac.codegen.gpu.gemm import wgmma
from xlac.codegen.gpu.gemm.epilogue_store import Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.tma_operand import AXES, TmaOperand, box_axes
from xlac.codegen.gpu.gemm.wgmma import ALIGN, ROW, WIDE
from xlac.codegen.schedules.gpu.gemm import WarpSpecializedSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import ceil_div, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, If, LoopKind
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
MOST_STAGES = 5
# tiles down in a band, so that blocks running at the same time share operands in the second-level
# cache
BANDS = (16, 8, 4)
ASKING, MULTIPLYING = 40, 232  # registers per thread, if there are three warpgroups


@dataclass(frozen=True, slots=True)
class WarpSpecializedTile(wgmma.WgmmaTile):
    """A block's tile: consumer warpgroups, each with 64 rows and all columns, and one producer
    warpgroup.
    """

    @property
    def consumers(self) -> int:
        """Threads that multiply."""
        return self.groups * GROUP * LANES

    @property
    def threads(self) -> int:
        """Threads of the consumers and of the producer warpgroup."""
        return self.consumers + GROUP * LANES


def choose(p: MatrixProduct, target: Target) -> WarpSpecializedTile | None:
    """The tile, for products that have enough such tiles to fill the machine and whose operands the
    TMA supports.
    """
    if not able(p, target):
        return None
    for groups in (2, 1):
        each = (groups * GROUP * ROWS + WIDE) * ROW + 16
        stages = min(MOST_STAGES, target.shared_bytes // each)
        tile = WarpSpecializedTile(groups, stages, wgmma.step(p))
        if (
            tile.stages > 1
            and tile.threads <= target.block_threads
            and wgmma.fills(tile, p, target)
        ):
            return tile
    return None


def able(p: MatrixProduct, target: Target) -> bool:
    """Whether the TMA supports the operands' layout, and warpgroup products their types."""
    if not wgmma.multiplies(p, target) or not target.instructions.issuperset(tma.NAMES):
        return False
    return all(box_axes(p, side) and len(box_axes(p, side)) <= AXES for side in (p.rows, p.columns))


def band(p: MatrixProduct, tile: WarpSpecializedTile) -> int:
    """The widest band that the tiles down are whole ones of, if they are; else 0."""
    return next((n for n in BANDS if _has_band(p, tile, n)), 0)


def _has_band(p: MatrixProduct, tile: WarpSpecializedTile, band: int) -> bool:
    down = ceil_div(p.rows.size, tile.rows)
    return isinstance(down, int) and down > band and down % band == 0


def check_band(schedule: WarpSpecializedSchedule, p: MatrixProduct) -> None:
    """Raises Misfit for a band that the tiles down are not whole ones of."""
    tile = WarpSpecializedTile(schedule.groups, schedule.stages, wgmma.step(p))
    if schedule.band and not _has_band(p, tile, schedule.band):
        raise Misfit(("band",), "the rows of tiles must be several whole bands, or it must be 0")


class WarpSpecializedGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Stores,
        p: MatrixProduct,
        tile: WarpSpecializedTile,
        target: Target,
        schedule: WarpSpecializedSchedule,
    ) -> None:
        self.elements, self.builder, self.after = elements, elements.builder, after
        self.p, self.tile, self.target, self.dtype = p, tile, target, p.rows.source.dtype
        self.loop = schedule.epilogue_loop  # whether the epilogue is a loop over results
        self.turns = ceil_div(p.depth, tile.step)
        down, across = ceil_div(p.rows.size, tile.rows), ceil_div(p.columns.size, WIDE)
        self.band = schedule.band
        self.extents = (
            [*p.batch, down // self.band, across, self.band]
            if self.band
            else [*p.batch, across, down]
        )
        self.tiles = volume(tuple(self.extents))

    def write(self) -> None:
        """As many blocks as there are multiprocessors; each takes tiles with this stride."""
        tile, builder = self.tile, self.builder
        most = self.target.processors
        blocks = (
            min(self.tiles, most)
            if isinstance(self.tiles, int)
            else build.apply(P.MIN, build.lift(self.tiles), build.index(most))
        )
        with grid(builder, self.target, blocks, tile.threads) as g:
            sides = ("left", self.p.rows, tile.rows), ("right", self.p.columns, WIDE)
            self.operands = [
                TmaOperand(
                    self.elements,
                    self.p,
                    side,
                    span,
                    g.shared(hint, self.dtype, tile.stages * tile.step * span, ALIGN),
                    f"{hint}_map",
                )
                for hint, side, span in sides
            ]
            arrived = sum(operand.size for operand in self.operands) * self.dtype.nbytes
            self.full = Barriers(g.shared("full", DType.I64, tile.stages), arrived, 1)
            self.empty = Barriers(
                g.shared("empty", DType.I64, tile.stages), tile.consumers, tile.consumers // LANES
            )
            with builder.when(build.apply(P.EQ, g.thread, build.index(0))):
                for slot in range(tile.stages):
                    builder.emit(self.full.begin(slot))
                    builder.emit(self.empty.begin(slot))
                builder.emit(tma.ready())
            builder.barrier()
            with builder.block() as multiplying:
                self._multiply(g)
            with builder.block() as asking:
                self._ask(g)
            builder.emit(
                If(
                    build.apply(P.LT, g.thread, build.index(tile.consumers)),
                    tuple(multiplying),
                    tuple(asking),
                )
            )

    @contextmanager
    def _each_tile(self, g: GridThread) -> Iterator[tuple[Counters, tuple[Expr, Expr], Expr]]:
        """A loop over the block's tiles: the position in the batch, the first row and column, and
        the number of earlier pipeline iterations.
        """
        builder, most = self.builder, self.target.processors
        with builder.loop("round", 0, ceil_div(self.tiles, most)) as around:
            number = builder.let("number", build.add(build.mul(around, most), g.block))
            with builder.when(build.apply(P.LT, number, build.lift(self.tiles))):
                *batch, across, down = unravel(builder, number, self.extents)
                if self.band:
                    down = build.add(build.mul(batch.pop(), self.band), down)
                first = (
                    builder.let("row", build.mul(down, self.tile.rows)),
                    builder.let("column", build.mul(across, WIDE)),
                )
                yield batch, first, builder.let("before", build.mul(around, self.turns))

    def _slot(self, turn: Expr) -> Expr:
        """The slot in the ring buffer of an iteration's tiles."""
        return self.builder.let("slot", build.mod(turn, self.tile.stages))

    def _ask(self, g: GridThread) -> None:
        """The producer thread: waits until a slot of the ring buffer is free, and starts the copies
        to it.
        """
        tile, builder = self.tile, self.builder
        if tile.groups > 1:
            builder.emit(tma.registers(ASKING, more=False))
        asks = build.apply(P.EQ, g.thread, build.index(tile.consumers))
        with (
            builder.when(asks),
            self._each_tile(g) as (batch, first, before),
            builder.loop("k", 0, self.turns) as k,
        ):
            turn = builder.let("turn", build.add(before, k))
            slot = self._slot(turn)
            builder.emit(self.empty.wait(slot, builder.let("used", build.div(turn, tile.stages))))
            builder.emit(self.full.expect(slot))
            step = builder.let("step", build.mul(k, tile.step))
            for operand, place in zip(self.operands, first, strict=True):
                operand.bring(
                    builder, build.mul(slot, operand.size), self.full, slot, batch, place, step
                )

    def _multiply(self, g: GridThread) -> None:
        """The consumer warpgroups: the product of one iteration is started before that of the
        previous one is waited for.
        """
        tile, builder = self.tile, self.builder
        if tile.groups > 1:
            builder.emit(tma.registers(MULTIPLYING, more=True))
        lane = builder.let("lane", build.mod(g.thread, LANES))
        row = builder.let("m", build.mul(build.div(g.thread, LANES), ROWS))
        sums = builder.local("sums", self.p.accumulate, WIDE // COLUMNS * 4)
        with self._each_tile(g) as (batch, first, before):
            with builder.loop("z", 0, sums.size, 2, kind=LoopKind.UNROLLED) as z:
                builder.store(sums, z, zero(self.p.accumulate, 2))
            with builder.loop("k", 0, self.turns) as k:
                turn = builder.let("turn", build.add(before, k))
                slot = self._slot(turn)
                builder.emit(
                    self.full.wait(
                        slot, builder.let("come", build.add(build.div(turn, tile.stages), 1))
                    )
                )
                left, right = (
                    FragmentOperand(
                        operand.memory,
                        builder.let("tile", build.mul(slot, operand.size)),
                        start,
                        operand.layout,
                    )
                    for operand, start in zip(self.operands, (row, build.index(0)), strict=True)
                )
                builder.emit(instructions.multiply_grouped(sums, left, right, lane, WIDE))
                builder.emit(instructions.settle(1))
                with builder.when(build.apply(P.LT, build.index(0), k)):
                    builder.emit(self.empty.done(self._slot(build.sub(turn, 1))))
            builder.emit(instructions.settle(0))
            some = build.apply(P.LT, build.index(0), build.lift(self.turns))
            with nullcontext() if isinstance(self.turns, int) else builder.when(some):
                builder.emit(
                    self.empty.done(self._slot(build.sub(build.add(before, self.turns), 1)))
                )
            wgmma.store(
                self.elements,
                self.after,
                self.p,
                tile,
                batch,
                (build.add(first[0], row), first[1]),
                lane,
                sums,
                self.loop,
            )
