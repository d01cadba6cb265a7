"""Matrix products of 16-bit floats by Hopper's warpgroup instructions (wgmma).

Both operands are in SHARED memory in rows of 128 bytes, from where the tensor cores read them:
threads only copy tiles there, several stages ahead, and hold the sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import zero
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.core import instructions, pipeline
from xlac.codegen.gpu.core.instructions import (
    CHUNK,
    COLUMNS,
    COPY,
    GROUP,
    GROUPED,
    LANES,
    ROWS,
    FragmentOperand,
    Swizzled,
)
from xlac.codegen.gpu.core.pipeline import Lane
from xlac.codegen.gpu.core.shared_staging import SharedStaging, tile_shape
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore, Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.tile_blocks import tile_blocks
from xlac.ir.dims import ceil_div, divisor
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, LoopKind
from xlac_sdk.target import Target

WIDE = 256  # columns of a block
ROW = 128  # bytes of a tile's row
ALIGN = 1024  # bytes of eight rows, the unit of swizzling


@dataclass(frozen=True, slots=True)
class WgmmaTile:
    """A block's tile: warpgroups, each with 64 rows and all columns."""

    groups: int
    stages: int
    step: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.groups * GROUP * ROWS

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return WIDE

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups * GROUP * LANES


def choose(p: MatrixProduct, target: Target) -> WgmmaTile | None:
    """The tile, for products that have enough such tiles to fill the machine and whose operands
    need no conversion.
    """
    if not able(p, target):
        return None
    for groups in (2, 1):
        tile = WgmmaTile(
            groups,
            max(2, min(4, target.shared_bytes // ((groups * GROUP * ROWS + WIDE) * ROW))),
            step(p),
        )
        fits = (
            tile.stages * (tile.rows + WIDE) * ROW <= target.shared_bytes
            and tile.threads <= target.block_threads
        )
        if fits and fills(tile, p, target):
            return tile
    return None


def step(p: MatrixProduct) -> int:
    """Steps of the sum that are staged at once."""
    return ROW // p.rows.source.dtype.nbytes


def able(p: MatrixProduct, target: Target) -> bool:
    """Whether warpgroup instructions support the operands, copied without conversion."""
    if not multiplies(p, target) or COPY not in target.instructions:
        return False
    lanes = CHUNK // p.rows.source.dtype.nbytes
    return all(
        side.width(lanes, along_depth=True, depth=p.depths) == lanes for side in (p.rows, p.columns)
    )


def multiplies(p: MatrixProduct, target: Target) -> bool:
    """Whether warpgroup instructions support the operands: 16-bit floats of one type, in memory."""
    sources, dtype = (p.rows.source, p.columns.source), p.rows.source.dtype
    halves = (
        all(source.dtype is dtype and not source.computed for source in sources)
        and p.accumulate is DType.F32
    )
    return (
        halves
        and target.warp == LANES
        and dtype in GROUPED
        and target.instructions.issuperset({GROUPED[dtype], instructions.SETTLE})
    )


def fills(tile: WgmmaTile, p: MatrixProduct, target: Target) -> bool:
    """Whether a product has enough of such tiles for the machine, nearly all of which are full."""
    batch, rows, columns, depth = p.usual
    full = 4 * rows >= 3 * tile.rows and 4 * columns >= 3 * WIDE
    return (
        full
        and 2 * batch * -(-rows // tile.rows) * -(-columns // WIDE) >= target.processors
        and depth >= 2 * tile.step
    )


class WgmmaGemm:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Stores,
        p: MatrixProduct,
        tile: WgmmaTile,
        target: Target,
        loop: bool,
    ) -> None:
        self.elements, self.builder, self.after = elements, elements.builder, after
        self.p, self.tile, self.target, self.dtype = p, tile, target, p.rows.source.dtype
        self.layout = Swizzled(self.dtype, tile.step, along_depth=True)
        self.loop = loop  # whether the epilogue is a loop over results

    def write(self) -> None:
        """One block for each tile of each product in the batch."""
        p, tile = self.p, self.tile
        spans = tile.rows, WIDE
        memory = [(self.dtype, tile.stages * tile.step * span) for span in spans]
        with tile_blocks(self.builder, self.target, p, spans, tile.threads, memory, ALIGN) as here:
            self._thread(*here)

    def _thread(
        self, thread: Expr, batch: Counters, first: tuple[Expr, Expr], memory: list[Buffer]
    ) -> None:
        p, tile, builder = self.p, self.tile, self.builder
        lane = builder.let("lane", build.mod(thread, LANES))
        row = builder.let("m", build.mul(build.div(thread, LANES), ROWS))
        lanes = []
        for number, (side, span) in enumerate(((p.rows, tile.rows), (p.columns, WIDE))):
            shape = tile_shape(side, p.depths, span, tile.step, CHUNK // self.dtype.nbytes)
            staging = SharedStaging(
                self.elements, side, p.depths, shape, self.dtype, tile.threads, self.layout, True
            )
            staging.begin(thread, first[number], batch)
            lanes.append(Lane(staging, memory[number], tile.step * span))
        sums = builder.local("sums", p.accumulate, WIDE // COLUMNS * 4)
        with builder.loop("z", 0, sums.size, 2, kind=LoopKind.UNROLLED) as z:
            builder.store(sums, z, zero(p.accumulate, 2))

        def multiply(_: Expr, starts: list[Expr]) -> None:
            left = FragmentOperand(memory[0], starts[0], row, self.layout)
            right = FragmentOperand(memory[1], starts[1], build.index(0), self.layout)
            builder.emit(instructions.multiply_grouped(sums, left, right, lane, WIDE))
            builder.emit(instructions.settle(0))

        end = ceil_div(p.depth, tile.step) * tile.step
        pipeline.run(
            builder,
            self.target,
            lanes,
            build.index(0),
            end,
            tile.step,
            tile.stages,
            multiply,
            p.depth,
            instructions.fence(),
        )
        store(
            self.elements,
            self.after,
            p,
            tile,
            batch,
            (build.add(first[0], row), first[1]),
            lane,
            sums,
            self.loop,
        )


def store(
    elements: Elements,
    after: Stores,
    p: MatrixProduct,
    tile: WgmmaTile,
    batch: Counters,
    first: tuple[Expr, Expr],
    lane: Expr,
    sums: Buffer,
    loop: bool,
) -> None:
    """The epilogue of a warp's sums, which begin at a row and a column."""
    builder = elements.builder
    row = builder.let("row", build.add(first[0], build.div(lane, 4)))
    column = builder.let("column", build.add(first[1], build.mul(build.mod(lane, 4), 2)))
    tall, wide = divisor(p.rows.size) % tile.rows != 0, divisor(p.columns.size) % WIDE != 0
    values = [
        [build.load(sums, j * 4 + i * 2, 2) for j in range(WIDE // COLUMNS)] for i in range(2)
    ]
    results = EpilogueStore(elements, after, p, batch, tall, wide, loop)
    results.store(
        lambda i: build.add(row, build.mul(i, ROWS // 2)),
        lambda j: build.add(column, build.mul(j, COLUMNS)),
        values,
    )
