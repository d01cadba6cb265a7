"""Recognizes products of a few rows or columns, and chooses how a block's threads share one."""

from __future__ import annotations

from dataclasses import replace

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
VECTOR = 4  # of them, in a vector
AHEAD, MOST_AHEAD = 4, 16


def each(how: SkinnyGemmSchedule) -> int:
    """Columns of a thread."""
    return 1 if how.along_depth else how.lanes


def steps_at_once(how: SkinnyGemmSchedule, warp: int) -> int:
    """Steps of the sum that a block's threads process at once."""
    return how.warps * warp // how.across * (how.lanes if how.along_depth else 1)


def columns(how: SkinnyGemmSchedule) -> int:
    """Columns of the threads that are adjacent along columns."""
    return how.across * each(how)


def pays(p: MatrixProduct) -> bool:
    """Whether one of the operands has few rows, so that reading the other one dominates."""
    _, rows, columns, depth = p.usual
    return min(rows, columns) <= FEW and depth > 1 and not p.rows.borders and not p.columns.borders


def share(p: MatrixProduct, target: Target) -> SkinnyGemmSchedule:
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
    vector = max(1, min(VECTOR, most_sums(p, target), lanes))
    tile = SkinnyGemmSchedule(few, lanes, along_depth, vector, across, max(1, warps), 1)
    return replace(tile, ahead=max(1, min(AHEAD, depth // steps_at_once(tile, target.warp))))


def most_sums(p: MatrixProduct, target: Target) -> int:
    """Sums of a thread that are one vector, at most."""
    return max(1, target.access_bytes // p.accumulate.nbytes)


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


def sides(p: MatrixProduct) -> tuple[MatrixOperand, MatrixOperand]:
    """The large operand and the small one."""
    _, rows, columns, _ = p.usual
    return (p.columns, p.rows) if rows <= columns else (p.rows, p.columns)
