"""Matrix products on tensor cores: tiles in SHARED memory, copied several stages ahead, multiplied
by warps.

Operands of 16 bits keep their memory order: a tile whose rows are steps of the sum is transposed as
fragments are loaded. Others, and operands that are converted, are transposed as they are written to
SHARED memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.core import instructions, pipeline
from xlac.codegen.gpu.core.instructions import (
    BYTES,
    COLUMNS,
    LANES,
    MMA,
    ROWS,
    FragmentOperand,
    Swizzled,
)
from xlac.codegen.gpu.core.pipeline import Lane
from xlac.codegen.gpu.core.shared_staging import SharedStaging, TileShape
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore, Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.tile_blocks import tile_blocks
from xlac.codegen.schedules.gpu.gemm import TensorCoreGemmSchedule
from xlac.ir.dims import ceil_div, divisor
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind
from xlac_sdk.target import Target

STAGES = 4
# products that tensor cores compute in the time of one operation on ordinary arithmetic
OPERATION = 8


@dataclass(frozen=True, slots=True)
class TensorCoreTile:
    """A block's tile: `warps` (down, across), each of `parts` (down, across) products; `step` of
    the sum at once.
    """

    warps: tuple[int, int]
    parts: tuple[int, int]
    step: int
    warp: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps[0] * self.warps[1] * self.warp

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.warps[0] * self.parts[0] * ROWS

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.warps[1] * self.parts[1] * COLUMNS

    def shared_bytes(self, dtype: DType, stages: int = STAGES) -> int:
        """SHARED memory for the stages of operands of a type."""
        return stages * self.step * (self.rows + self.columns) * dtype.nbytes


_TILES = (
    ((2, 4), (4, 8)), ((2, 2), (4, 8)), ((2, 2), (4, 4)), ((2, 2), (2, 8)), ((2, 2), (2, 4)),
    ((1, 4), (1, 4)), ((1, 2), (1, 2)), ((1, 1), (1, 2)),
)  # fmt: skip


def operand(p: MatrixProduct, target: Target) -> DType | None:
    """The type in which tensor cores multiply; None if they do not support this product."""
    types = {p.rows.source.dtype, p.columns.source.dtype}
    quantised = types - {DType.I8}
    (dtype,) = quantised if len(quantised) == 1 else types if len(types) == 1 else (DType.F64,)
    summed = DType.I32 if dtype is DType.I8 else DType.F32
    known = dtype in MMA and MMA[dtype] in target.instructions
    return dtype if known and p.accumulate is summed and target.warp == LANES else None


def step(p: MatrixProduct, target: Target) -> int:
    """Steps of the sum that are staged at once."""
    dtype = operand(p, target)
    assert dtype is not None
    return 2 * BYTES // dtype.nbytes


def choose(target: Target, p: MatrixProduct, dtype: DType) -> TensorCoreTile | None:
    """The tile with the least estimated time; None if tensor cores do not pay."""
    batch, rows, columns, depth = p.usual
    if min(rows, columns) < COLUMNS or depth * dtype.nbytes < BYTES:
        return None
    step = 2 * BYTES // dtype.nbytes
    best: tuple[float, TensorCoreTile] | None = None
    for warps, parts in _TILES:
        tile = TensorCoreTile(warps, parts, step, target.warp)
        if tile.threads > target.block_threads or tile.shared_bytes(dtype) > target.shared_bytes:
            continue
        count = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
        resident = max(1, 256 // tile.threads)
        waves = -(-count // ((target.processors or block_tiling.PROCESSORS) * resident))
        # reads of SHARED memory for each product
        reads = 1 / (parts[0] * ROWS) + 1 / (parts[1] * COLUMNS)
        time = (
            waves
            * resident
            * (
                tile.rows * tile.columns * (1 + 32 * reads)
                + OPERATION * p.computing(tile.rows, tile.columns)
            )
        )
        if best is None or time < best[0]:
            best = time, tile
    return best[1] if best else None


def layout(shape: TileShape, dtype: DType) -> Swizzled:
    """The layout of a tile in SHARED memory; 16-bit elements keep the order in which vectors are
    loaded.
    """
    turned = not shape.along_depth and dtype.is_half and shape.lanes > 1
    return Swizzled(dtype, shape.span if turned else shape.step, not turned)


class TensorCoreGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Stores,
        p: MatrixProduct,
        tile: TensorCoreTile,
        dtype: DType,
        target: Target,
        schedule: TensorCoreGemmSchedule,
    ) -> None:
        self.elements, self.builder, self.after = elements, elements.builder, after
        self.p, self.tile, self.dtype, self.target = p, tile, dtype, target
        self.schedule, self.staging = schedule, (schedule.left, schedule.right)
        self.shapes = [
            TileShape(span, tile.step, how.lanes, how.along == "depth")
            for how, span in zip(self.staging, (tile.rows, tile.columns), strict=True)
        ]
        self.layouts = [layout(shape, dtype) for shape in self.shapes]

    def write(self) -> None:
        """One block for each tile of each product in the batch."""
        p, tile = self.p, self.tile
        spans = tile.rows, tile.columns
        memory = [(self.dtype, self.schedule.stages * tile.step * span) for span in spans]
        with tile_blocks(self.builder, self.target, p, spans, tile.threads, memory) as here:
            self._thread(*here)

    def _thread(
        self, thread: Expr, batch: Counters, first: tuple[Expr, Expr], memory: list[Buffer]
    ) -> None:
        p, tile, builder = self.p, self.tile, self.builder
        warp, lane = (
            builder.let("warp", build.div(thread, tile.warp)),
            builder.let("lane", build.mod(thread, tile.warp)),
        )
        spans = tile.parts[0] * ROWS, tile.parts[1] * COLUMNS
        row = builder.let("m", build.mul(build.div(warp, tile.warps[1]), spans[0]))
        column = builder.let("n", build.mul(build.mod(warp, tile.warps[1]), spans[1]))
        lanes = []
        for number, side in enumerate((p.rows, p.columns)):
            staging = SharedStaging(
                self.elements,
                side,
                p.depths,
                self.shapes[number],
                self.dtype,
                tile.threads,
                self.layouts[number],
                self.staging[number].asynchronous,
            )
            staging.begin(thread, first[number], batch)
            lanes.append(Lane(staging, memory[number], tile.step * self.shapes[number].span))
        sums = builder.local("sums", p.accumulate, tile.parts[0] * tile.parts[1] * 4)
        with builder.loop("z", 0, sums.size, 2, kind=LoopKind.UNROLLED) as z:
            builder.store(sums, z, zero(p.accumulate, 2))

        def multiply(_: Expr, starts: list[Expr]) -> None:
            left = FragmentOperand(memory[0], starts[0], row, self.layouts[0])
            right = FragmentOperand(memory[1], starts[1], column, self.layouts[1])
            for step in range(0, tile.step, BYTES // self.dtype.nbytes):
                builder.emit(
                    instructions.multiply(sums, left, right, build.index(step), lane, tile.parts)
                )

        end = ceil_div(p.depth, tile.step) * tile.step
        stages = self.schedule.stages
        pipeline.run(
            builder, self.target, lanes, build.index(0), end, tile.step, stages, multiply, p.depth
        )
        self._store(batch, build.add(first[0], row), build.add(first[1], column), lane, sums)

    def _store(self, batch: Counters, row: Expr, column: Expr, lane: Expr, sums: Buffer) -> None:
        p, tile, builder = self.p, self.tile, self.builder
        row = builder.let("row", build.add(row, build.div(lane, 4)))
        column = builder.let("column", build.add(column, build.mul(build.mod(lane, 4), 2)))

        def rows(i: build.Number) -> Expr:
            return build.add(row, build.mul(i, ROWS // 2))

        def columns(j: build.Number) -> Expr:
            return build.add(column, build.mul(j, COLUMNS))

        tall, wide = (
            divisor(p.rows.size) % tile.rows != 0,
            divisor(p.columns.size) % tile.columns != 0,
        )
        values = [
            [
                build.load(sums, ((i // 2) * tile.parts[1] + j) * 4 + i % 2 * 2, 2)
                for j in range(tile.parts[1])
            ]
            for i in range(2 * tile.parts[0])
        ]
        results = EpilogueStore(
            self.elements, self.after, p, batch, tall, wide, self.schedule.epilogue_loop
        )
        results.store(rows, columns, values)
