"""Chooses whether a 3x3 convolution is computed by Winograd's algorithm, and its blocking. Both
decide how sums round, so only shipped facts are read, never measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.codegen.core.contraction.packing import panel_count
from xlac.codegen.core.contraction.partial_tiles import PRODUCTS
from xlac.codegen.core.contraction.tiling import RegisterTile, even_split
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import check_threads, share
from xlac.codegen.cpu import threads_pay
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.tiling import Tiling, plane
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.gemm.choose import LONG_EPILOGUE
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.codegen.schedules.schedule import Misfit, Threads
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

# bytes of a thread's stack; a block and its weights take at most three quarters of it
STACK = 2 << 20
PIECES = 8  # pieces of work per thread
# tiles of a piece, if there are enough for all threads: each piece transforms all weights
LEAST = 48
LOOK = 1.0  # cycles of the accuracy guard for a vector of pixels


def tilings(anchor: Node, target: Target) -> list[Tiling]:
    """The tilings that can compute a convolution; none if Winograd does not support it."""
    if not target.vector_bytes:
        return []
    able = (_served(anchor, results, target) for results in sides(target))
    return [tiling for tiling in able if tiling is not None]


def cheapest(able: Sequence[Tiling], target: Target) -> Tiling:
    """The tiling with the fewest estimated cycles."""
    return min(able, key=lambda tiling: _cycles(tiling, target.shipped))


def pays(t: Tiling, target: Target) -> bool:
    """Whether a tiling takes fewer estimated cycles than the direct sum, and may take more code."""
    target = target.shipped
    return not target.size and _cycles(t, target) < _direct(t, target)


def sides(target: Target) -> tuple[int, ...]:
    """The tile sizes (results per side) to consider; larger ones are less accurate."""
    return tuple(toom_cook.POINTS) if target.fast else (2,)


def _served(anchor: Node, results: int, target: Target) -> Tiling | None:
    """The convolution in tiles of `results` by `results`; None if Winograd does not support it."""
    op, (x, kernel) = anchor.op, anchor.inputs
    assert isinstance(op, Conv)
    if not is_plain(anchor) or kernel.shape[:2] != (toom_cook.TAPS, toom_cook.TAPS):
        return None
    batch, height, width, channels = (int(n) for n in x.shape if isinstance(n, int))
    _, down, across, columns = (int(n) for n in anchor.shape if isinstance(n, int))
    lanes = target.lanes(DType.F32)
    if channels % lanes or columns % lanes:
        return None
    return Tiling(
        results,
        batch,
        (height, width),
        (op.low[0], op.low[1]),
        (down, across),
        channels,
        columns,
        not target.fast,
    )


def is_plain(anchor: Node) -> bool:
    """Whether a convolution of f32 has channels last and known sizes, and neither strides, dilation
    nor groups.
    """
    op, (x, kernel) = anchor.op, anchor.inputs
    assert isinstance(op, Conv)
    steps = {*op.strides, *op.lhs_dilation, *op.rhs_dilation, op.feature_groups, op.batch_groups}
    return (
        op.layout == ("NHWC", "HWIO", "NHWC")
        and {x.type.dtype, anchor.type.dtype} == {DType.F32}
        and steps == {1}
        and all(isinstance(n, int) and n for n in (*x.shape, *kernel.shape, *anchor.shape))
    )


def product_cycles(target: Target, rows: int, columns: int, depth: int) -> float:
    """Cycles of a matrix product."""
    tile = register_tile.choose(target, DType.F32, (1, rows), columns, depth)
    many = -(-rows // tile.rows[1]) * -(-columns // tile.width)
    return (
        many
        * depth
        * register_tile.cycles(
            tile.rows[1], tile.vectors, target.hardware, register_tile.apart(target)
        )
    )


def _cycles(t: Tiling, target: Target) -> float:
    """Estimated cycles over all threads. Weights are loaded during their transform, which does not
    overlap with arithmetic.
    """
    each, hardware = t.points / target.lanes(DType.F32), target.hardware
    tile = tile_of(t, target)
    blocks = -(-_row_tiles(t, tile) // _block(t, tile, target))
    products = t.points * product_cycles(target, t.tiles, t.columns, t.channels)
    vectors = each * (t.tiles * (t.channels + t.columns) + blocks * t.channels * t.columns)
    transforms = vectors * hardware.transform_cycles
    moved = t.points * t.tiles * t.channels * DType.F32.nbytes
    moving = moved / hardware.rates("l3", target.threads)[0]
    looks = each * t.tiles * t.channels * LOOK if t.guarded else 0.0
    return products + _waiting(t, target) + transforms + moving + looks


def _direct(t: Tiling, target: Target) -> float:
    """The same for the direct sum, in which loads of weights overlap with arithmetic."""
    depth = toom_cook.TAPS**2 * t.channels
    rows = t.batch * t.pixels[0] * t.pixels[1]
    return max(product_cycles(target, rows, t.columns, depth), _waiting(t, target))


def _waiting(t: Tiling, target: Target) -> float:
    size = toom_cook.TAPS**2 * t.channels * t.columns * DType.F32.nbytes
    if size <= target.hardware.l2_room // 2:
        return 0.0
    return target.threads * size / target.hardware.rates("memory", target.threads)[0]


# ---- blocking ------------------------------------------------------------------------------------


def choose(t: Tiling, after: Epilogue, target: Target) -> WinogradSchedule:
    """Blocks of tiles whose products at all points stay in half the second-level cache, with enough
    pieces for every thread; and chunks of channels whose transformed weights stay in a quarter.
    """
    target = target.shipped
    tile = tile_of(t, target)
    block, most = _block(t, tile, target), max(1, min(_room(t, tile, target), PRODUCTS))
    chunk = next(
        n for n in range(t.channels, 0, -1) if t.channels % n == 0 and (n == 1 or n <= most)
    )
    items = -(-_row_tiles(t, tile) // block) * _panels(t, tile)
    flops = 2 * t.points * t.tiles * t.columns * chunk
    return WinogradSchedule(
        t.results,
        share(target, t.input.loops[1:], t.points * t.channels * 4),
        tile,
        block,
        chunk,
        (4, 2),
        "fewer" if register_tile.apart(target) else "right",
        Threads(int(items > 1 and threads_pay.pays(flops, DType.F32, target))),
        after.weight > LONG_EPILOGUE,
    )


def of_part(schedule: WinogradSchedule, part: Tiling) -> WinogradSchedule:
    """The schedule of a convolution for a part of its batch."""
    return replace(schedule, block=min(schedule.block, _row_tiles(part, schedule.tile)))


def tile_of(t: Tiling, target: Target) -> RegisterTile:
    """The register tile of the products. A chunk's weights at one point fit the
    first-level cache.
    """
    return register_tile.choose(target, DType.F32, (1, t.tiles), t.columns)


def _room(t: Tiling, tile: RegisterTile, target: Target) -> int:
    """Columns of a panel, at all points, that fit a quarter of the second-level cache."""
    return min(target.l2_bytes, STACK) // 4 // (t.points * tile.width * DType.F32.nbytes)


def _row_tiles(t: Tiling, tile: RegisterTile) -> int:
    return -(-t.tiles // tile.rows[1])


def _panels(t: Tiling, tile: RegisterTile) -> int:
    return size_hint(panel_count(t.columns, tile))


def _block(t: Tiling, tile: RegisterTile, target: Target) -> int:
    """Register tiles of a block."""
    count, panels = _row_tiles(t, tile), _panels(t, tile)
    width = t.points * tile.width * DType.F32.nbytes
    block = max(1, 2 * (min(target.l2_bytes, STACK) // 4) // (width * tile.rows[1]))
    if target.threads > 1:
        least = min(count * panels // target.threads, -(-LEAST // tile.rows[1]))
        block = min(block, max(1, least, count * panels // (PIECES * target.threads)))
    return even_split(count, min(block, count)).step


def check(schedule: WinogradSchedule, t: Tiling, target: Target) -> None:
    """Raises Misfit for a schedule that the convolution cannot have."""
    if schedule.results not in sides(target):
        words = " or ".join(map(str, sides(target)))
        raise Misfit(("results",), f"it must be {words} at this precision")
    _check_tile(schedule.tile, t, target)
    count = _row_tiles(t, schedule.tile)
    if schedule.block > count:
        raise Misfit(("block",), f"there are {count} register tiles of rows")
    if t.channels % schedule.chunk or schedule.chunk > PRODUCTS:
        raise Misfit(("chunk",), f"it must divide {t.channels} channels, and be at most {PRODUCTS}")
    rows, width = schedule.block * schedule.tile.rows[1], schedule.tile.width
    kept = t.points * (plane(rows * width) + plane(schedule.chunk * width) + t.channels)
    if kept * DType.F32.nbytes > STACK:
        raise Misfit(("block",), f"it takes {kept * DType.F32.nbytes:,} bytes of a stack")
    try:
        check_threads(schedule.input_threads, 3)
    except Misfit as misfit:
        raise Misfit(("input_threads", "loops"), misfit.problem) from None
    check_threads(schedule.threads, 1)


def _check_tile(tile: RegisterTile, t: Tiling, target: Target) -> None:
    most = target.lanes(DType.F32)
    if tile.lanes & (tile.lanes - 1) or tile.lanes > most:
        raise Misfit(("tile", "lanes"), f"it must be a power of two, at most {most} on this target")
    if tile.rows[0] != 1 or tile.rows[1] > t.tiles:
        raise Misfit(("tile", "rows"), f"it must be 1 and at most the {t.tiles} tiles of results")
    used = register_tile.registers(tile.rows[1], tile.vectors, target)
    if used > target.vector_registers and (tile.rows[1], tile.vectors) != (1, 1):
        raise Misfit(
            ("tile",), f"it takes {used} registers, and there are {target.vector_registers}"
        )
    if tile.vectors > -(-t.columns // tile.lanes):
        raise Misfit(("tile", "vectors"), f"there are {t.columns} channels of the result")
