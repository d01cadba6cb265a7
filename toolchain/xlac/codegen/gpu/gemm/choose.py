"""Chooses how a contraction is computed on a GPU: the kernel template, tiles, and the split of the
sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlac.codegen.gpu.gemm import (
    block_tiling,
    simt_gemm,
    skinny_tile,
    split_k,
    staging,
    tensor_core_gemm,
    warp_specialized_gemm,
    wgmma,
)
from xlac.codegen.gpu.gemm.block_tiling import BlockTile, spread, vector_of
from xlac.codegen.gpu.gemm.epilogue_store import LONG
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.tensor_core_gemm import TensorCoreTile
from xlac.codegen.gpu.gemm.warp_specialized_gemm import WarpSpecializedTile
from xlac.codegen.gpu.gemm.wgmma import WgmmaTile
from xlac.codegen.schedules.gpu.gemm import (
    GpuContraction,
    SimtGemmSchedule,
    SkinnyGemmSchedule,
    TensorCoreGemmSchedule,
    TiledSchedule,
    WarpSpecializedSchedule,
    WgmmaSchedule,
)
from xlac.codegen.schedules.schedule import Misfit
from xlac_sdk.target import Target

MOST_STAGES = 8  # stages of operands in SHARED memory

Tile = BlockTile | TensorCoreTile | WgmmaTile
"""The tile of a block."""


def choose(p: MatrixProduct, target: Target, weight: int) -> GpuContraction:
    """The schedule of a product whose epilogue takes `weight` operations for each element: skinny
    if it has few rows; on tensor cores, if they support the operands; else on ordinary arithmetic.
    """
    return next(every_template(p, target, weight))


def every_template(p: MatrixProduct, target: Target, weight: int) -> Iterator[GpuContraction]:
    """A schedule of each template for a product, the best one first, as far as estimated."""
    if skinny_tile.pays(p):
        yield skinny_tile.share(p, target)
    if roles := warp_specialized_gemm.choose(p, target):
        parts, band = _parts(p, roles, target), warp_specialized_gemm.band(p, roles)
        combine, long = split_k.combine(p, parts, target), parts == 1 and weight > LONG
        yield WarpSpecializedSchedule(roles.groups, roles.stages, band, parts, combine, long)
    if groups := wgmma.choose(p, target):
        parts = _parts(p, groups, target)
        combine, long = split_k.combine(p, parts, target), parts == 1 and weight > LONG
        yield WgmmaSchedule(groups.groups, groups.stages, parts, combine, long)
    dtype = tensor_core_gemm.operand(p, target)
    if dtype and (cores := tensor_core_gemm.choose(target, p, dtype)):
        parts = _parts(p, cores, target)
        left, right = (
            staging.choose(one, p.depths, target) for one in staging.of_cores(p, cores, dtype)
        )
        yield TensorCoreGemmSchedule(
            cores.warps,
            cores.parts,
            parts,
            split_k.combine(p, parts, target),
            tensor_core_gemm.STAGES,
            left,
            right,
            parts == 1 and weight > LONG,
        )
    tile = block_tiling.choose(target, p)
    yield _simt(p, tile, target, weight)


def _simt(p: MatrixProduct, tile: BlockTile, target: Target, weight: int) -> SimtGemmSchedule:
    parts, several = _parts(p, tile, target), tile.pieces[0] * tile.vector * tile.pieces[1] > 2
    left, right = (staging.choose(one, p.depths, target) for one in staging.of_block(p, tile))
    return SimtGemmSchedule(
        tile.warps,
        tile.pieces,
        parts,
        split_k.combine(p, parts, target),
        simt_gemm.STAGES,
        # consecutive steps are in different banks
        (tile.rows + tile.vector, tile.columns + tile.vector),
        left,
        right,
        parts == 1 and several and weight > LONG,
    )


def tile_of(schedule: TiledSchedule, p: MatrixProduct, target: Target) -> Tile:
    """The tile of a block by a schedule."""
    match schedule:
        case WarpSpecializedSchedule(groups=groups, stages=stages):
            return WarpSpecializedTile(groups, stages, wgmma.step(p))
        case WgmmaSchedule(groups=groups, stages=stages):
            return WgmmaTile(groups, stages, wgmma.step(p))
        case TensorCoreGemmSchedule(warps=warps, products=products):
            step = tensor_core_gemm.step(p, target)
            return TensorCoreTile(warps, products, step, target.warp)
        case SimtGemmSchedule(warps=warps, pieces=pieces):
            vector, lanes = vector_of(target, p.accumulate), spread(target.warp)
            return BlockTile(warps, lanes, pieces, vector, block_tiling.STEP)


def _parts(p: MatrixProduct, tile: Tile, target: Target) -> int:
    batch, down, across, _ = p.usual
    blocks = batch * -(-down // tile.rows) * -(-across // tile.columns)
    return split_k.parts(p, blocks, tile.step, target.processors or block_tiling.PROCESSORS)


def check(schedule: GpuContraction, p: MatrixProduct, target: Target) -> None:
    """Raises Misfit for a schedule by which the product cannot be computed."""
    match schedule:
        case SkinnyGemmSchedule():
            _check_skinny(schedule, p, target)
            return
        case WarpSpecializedSchedule():
            if not warp_specialized_gemm.able(p, target):
                raise Misfit(("template",), "the TMA does not support the layout of these operands")
            warp_specialized_gemm.check_band(schedule, p)
        case WgmmaSchedule():
            if not wgmma.able(p, target):
                raise Misfit(("template",), "warpgroup instructions do not support these operands")
        case TensorCoreGemmSchedule():
            if tensor_core_gemm.operand(p, target) is None:
                raise Misfit(("template",), "tensor cores do not support these operands")
    _check_tile(schedule, p, target)
    if schedule.epilogue_loop and schedule.split_k > 1:
        raise Misfit(("epilogue_loop",), "partial sums are stored without an epilogue")
    split_k.check(schedule, p, tile_of(schedule, p, target).step, target)


def _check_tile(schedule: TiledSchedule, p: MatrixProduct, target: Target) -> None:
    tile = tile_of(schedule, p, target)
    if tile.threads > target.block_threads:
        field = "warps" if isinstance(tile, BlockTile | TensorCoreTile) else "groups"
        raise Misfit((field,), f"{tile.threads} threads, of {target.block_threads} of a block")
    room = 0
    match tile:
        case BlockTile():
            assert isinstance(schedule, SimtGemmSchedule)
            known = block_tiling.SHAPES
            room = schedule.stages * tile.step * sum(schedule.pitches) * p.accumulate.nbytes
            if tile.warps not in known[0] or tile.pieces not in known[1]:
                raise Misfit(("warps",), f"warps are of {known[0]}, pieces of {known[1]}")
        case TensorCoreTile():
            dtype = tensor_core_gemm.operand(p, target)
            assert dtype is not None
            assert isinstance(schedule, TensorCoreGemmSchedule)
            room = tile.shared_bytes(dtype, schedule.stages)
            if not set(tile.warps) <= {1, 2, 4}:
                raise Misfit(("warps",), "they must be 1, 2 or 4 each")
            if tile.parts[0] not in (1, 2, 4) or tile.parts[1] not in (2, 4, 8):
                raise Misfit(("products",), "they must be 1, 2 or 4 down, and 2, 4 or 8 across")
        case WgmmaTile():
            room = tile.stages * (tile.rows + wgmma.WIDE) * wgmma.ROW
            room += 16 * tile.stages if isinstance(tile, WarpSpecializedTile) else 0
            if tile.groups > 2 or not 2 <= tile.stages <= warp_specialized_gemm.MOST_STAGES:
                most = warp_specialized_gemm.MOST_STAGES
                raise Misfit(("stages",), f"groups must be 1 or 2, stages 2 to {most}")
    if room > target.shared_bytes:
        field = "stages" if isinstance(tile, WgmmaTile) else "warps"
        raise Misfit((field,), f"{room:,} bytes of SHARED memory, of {target.shared_bytes:,}")
    if isinstance(schedule, SimtGemmSchedule | TensorCoreGemmSchedule):
        _check_staging(schedule, tile, p, target)


def _check_staging(
    schedule: SimtGemmSchedule | TensorCoreGemmSchedule,
    tile: Tile,
    p: MatrixProduct,
    target: Target,
) -> None:
    if not 2 <= schedule.stages <= MOST_STAGES:
        raise Misfit(("stages",), f"it must be from 2 to {MOST_STAGES}")
    if isinstance(tile, BlockTile):
        ways = staging.of_block(p, tile)
    else:
        dtype = tensor_core_gemm.operand(p, target)
        assert isinstance(tile, TensorCoreTile) and dtype is not None
        ways = staging.of_cores(p, tile, dtype)
    for name, how, one in zip(
        ("left", "right"), (schedule.left, schedule.right), ways, strict=True
    ):
        staging.check(how, one, p.depths, target, (name,))
    if isinstance(schedule, SimtGemmSchedule) and isinstance(tile, BlockTile):
        for n, (pitch, one) in enumerate(zip(schedule.pitches, ways, strict=True)):
            lanes = max(tile.vector, (schedule.left, schedule.right)[n].lanes)
            if pitch < one.span or pitch % lanes:
                problem = f"it must be a multiple of {lanes}, at least the {one.span} of a tile"
                raise Misfit(("pitches", n), problem)


def _check_skinny(schedule: SkinnyGemmSchedule, p: MatrixProduct, target: Target) -> None:
    if not skinny_tile.pays(p):
        raise Misfit(("template",), "neither operand has few rows")
    wide, _ = skinny_tile.sides(p)
    most, along_depth = skinny_tile.widest(wide, target), schedule.along_depth
    widest = wide.width(most, along_depth=along_depth, depth=p.depths)
    vector = min(schedule.lanes, skinny_tile.most_sums(p, target))
    for field, value, limit in (
        ("few", schedule.few, skinny_tile.FEW),
        ("lanes", schedule.lanes, widest),
        ("vector", schedule.vector, vector),
        ("across", schedule.across, 1 if along_depth else target.warp),
        ("warps", schedule.warps, min(skinny_tile.WARPS, target.block_threads // target.warp)),
    ):
        if value & (value - 1) or value > max(1, limit):
            raise Misfit((field,), f"it must be a power of two, at most {max(1, limit)} here")
    if schedule.ahead > skinny_tile.MOST_AHEAD:
        raise Misfit(("ahead",), f"it must be at most {skinny_tile.MOST_AHEAD}")
    if not along_depth and schedule.few * schedule.lanes > skinny_tile.SUMS:
        raise Misfit(("few",), f"few times lanes is at most {skinny_tile.SUMS}")
