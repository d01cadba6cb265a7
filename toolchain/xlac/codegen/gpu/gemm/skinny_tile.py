"""Recognizes products of a few rows or columns, and distributes one over a block's threads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.gpu.core.grid import at_least, power_of_two
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.schedules.gpu.gemm import SkinnyGemmSchedule
from xlac_sdk.target import Target

FEW = 8  # rows for which a thread holds sums
SECTOR = 32  # bytes of a memory transaction
WARPS = 8  # warps of a block, if there is enough work


SUMS = 64  # sums of a thread
AHEAD, MOST_AHEAD = 4, 16


@dataclass(frozen=True, slots=True)
class SkinnyTile:
    """The distribution of the work over a block's threads."""

    few: int  # rows of the small operand at a time
    lanes: int  # elements of the large operand that a thread loads at once
    along_depth: bool  # whether those are along the sum
    across: int  # threads of a warp along columns; the others share the sum
    warps: int  # warps, which share the sum too
    ahead: int  # loads of the large operand that a thread starts before it uses the first

    @property
    def each(self) -> int:
        """Columns of a thread."""
        return 1 if self.along_depth else self.lanes

    def turn(self, warp: int) -> int:
        """Steps of the sum that a block's threads process at once."""
        return self.warps * warp // self.across * (self.lanes if self.along_depth else 1)

    @property
    def columns(self) -> int:
        """Columns of the threads that are adjacent along columns."""
        return self.across * self.each


def pays(p: MatrixProduct) -> bool:
    """Whether one of the operands has few rows, so that reading the other one dominates."""
    _, rows, columns, depth = p.usual
    return min(rows, columns) <= FEW and depth > 1 and not p.rows.borders and not p.columns.borders


def share(p: MatrixProduct, target: Target) -> SkinnyTile:
    """The widest loads that the layout allows, and enough blocks to use the bandwidth of every
    multiprocessor.
    """
    wide, _ = sides(p)
    along_depth = lies_along_depth(wide, p, target)
    lanes = wide.width(widest(wide, target), along_depth=along_depth, depth=p.depths)
    batch, *sizes, depth = p.usual
    few = min(FEW, at_least(min(sizes)))
    across = 1
    if not along_depth:
        while few * lanes > SUMS:
            lanes //= 2
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


def widest(wide: MatrixOperand, target: Target) -> int:
    """Elements of the large operand that a thread reads at once, at most."""
    return max(1, target.access_bytes // max(wide.source.dtype.nbytes, 1))


def lies_along_depth(wide: MatrixOperand, p: MatrixProduct, target: Target) -> bool:
    """Whether neighbours along the sum lie side by side in the large operand, and not its columns:
    a thread reads those that do.
    """
    most = widest(wide, target)
    deep, flat = (wide.width(most, along_depth=d, depth=p.depths) for d in (True, False))
    return deep > flat or (deep == flat and wide.depth[-1:] == (1,))


def tile_of(schedule: SkinnyGemmSchedule, p: MatrixProduct, target: Target) -> SkinnyTile:
    """How a schedule shares a product."""
    s, deep = schedule, lies_along_depth(sides(p)[0], p, target)
    return SkinnyTile(s.few, s.lanes, deep, s.across, s.warps, s.ahead)


def sides(p: MatrixProduct) -> tuple[MatrixOperand, MatrixOperand]:
    """The large operand and the small one."""
    _, rows, columns, _ = p.usual
    return (p.columns, p.rows) if rows <= columns else (p.rows, p.columns)
