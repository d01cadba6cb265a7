"""Products of a few rows or columns: which they are, and how a block's threads share one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.gpu.core.grid import at_least, power_of_two
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

FEW = 8  # rows that a thread has sums for
SECTOR = 32  # bytes of memory that are read together
WARPS = 8  # of a block, where it may have as many

P = Primitive


SUMS = 64  # of a thread
AHEAD, MOST_AHEAD = 4, 16


@dataclass(frozen=True, slots=True)
class SkinnyTile:
    """How a block's threads share the work."""

    few: int  # rows of the small operand at a time
    lanes: int  # elements of the large one that a thread reads at once
    along_depth: bool  # whether those lie along the sum
    across: int  # threads of a warp next to each other across columns; the others share the sum
    warps: int  # which share the sum too
    ahead: int  # reads of the large operand that a thread begins before it needs the first

    @property
    def each(self) -> int:
        """Columns of a thread."""
        return 1 if self.along_depth else self.lanes

    def turn(self, warp: int) -> int:
        """Steps of the sum that a block's threads take at once."""
        return self.warps * warp // self.across * (self.lanes if self.along_depth else 1)

    @property
    def columns(self) -> int:
        """Columns of the threads that lie side by side."""
        return self.across * self.each


def pays(p: MatrixProduct) -> bool:
    """True when one of the operands has few rows, so that the other one's size is what counts."""
    _, rows, columns, depth = p.usual
    return min(rows, columns) <= FEW and depth > 1 and not p.rows.borders and not p.columns.borders


def share(p: MatrixProduct, target: Target) -> SkinnyTile:
    """The widest reads that memory allows, and enough blocks to keep every multiprocessor reading."""
    wide, _ = sides(p)
    most = max(1, target.access_bytes // max(wide.source.dtype.nbytes, 1))
    deep, flat = (wide.width(most, along_depth=d, depth=p.depths) for d in (True, False))
    batch, *sizes, depth = p.usual
    few = min(FEW, at_least(min(sizes)))
    while few * flat > SUMS:
        flat //= 2
    if deep > flat or (deep == flat and wide.depth[-1:] == (1,)):
        lanes, along_depth, across = deep, True, 1
    else:
        lanes, along_depth = flat, False
        across = target.warp
        processors = target.processors or block_tiling.PROCESSORS
        while (
            across * lanes * wide.source.dtype.nbytes > SECTOR
            and batch * max(sizes) < processors * across * lanes
        ):
            across //= 2
    threads = depth // (lanes if along_depth else 1) * across
    warps = min(
        WARPS, target.block_threads // target.warp, power_of_two(max(1, threads // target.warp))
    )
    tile = SkinnyTile(few, lanes, along_depth, across, max(1, warps), 1)
    return replace(tile, ahead=max(1, min(AHEAD, depth // tile.turn(target.warp))))


def sides(p: MatrixProduct) -> tuple[MatrixOperand, MatrixOperand]:
    """The large operand and the small one."""
    _, rows, columns, _ = p.usual
    return (p.columns, p.rows) if rows <= columns else (p.rows, p.columns)
