"""Chooses how a canonical contraction is computed on a CPU: the kernel template, how its right
operand is read, and the blocking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlac.codegen.core.contraction import byte_words, packing
from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.gemm import (
    autovectorized,
    cache_blocking,
    inner_product_choice,
    prefetch,
    register_tile,
    register_transpose,
    streamed_choice,
)
from xlac.codegen.cpu.gemm.matrix_unit import tile_choice
from xlac.codegen.schedules.gemm import (
    AutovectorizedSchedule,
    BytesGemmSchedule,
    CacheBlocking,
    ContractionSchedule,
    GemmSchedule,
    InnerProductSchedule,
    MatrixGemmSchedule,
    Operand,
    StreamedGemmSchedule,
)
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import divisor, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

# operations for each element above which the epilogue is a loop over rows instead of unrolled
LONG_EPILOGUE = 12


def choose(
    c: Contraction, after: Epilogue, view: OperandView, target: Target
) -> ContractionSchedule:
    """The schedule of a contraction and its epilogue. `view` is the view that the right operand
    came from.
    """
    if streamed_choice.pays(c, view, target.shipped):
        return streamed_choice.chosen(c, view, after, target)
    swap, read = _as_read(c, view, target)
    if view.folded is None and inner_product_choice.pays(read, target):
        return inner_product_choice.chosen(read, swap, target)
    if autovectorized.pays(read, target):
        return autovectorized.chosen(read, swap)
    return _tiled(c, after, view, target)


def every_template(
    c: Contraction, after: Epilogue, view: OperandView, target: Target
) -> Iterator[ContractionSchedule]:
    """A schedule of each template for a contraction, also of those by which it cannot be
    computed.
    """
    swap = not byte_words.able(c, target) and inner_product_choice.swaps(c, view)
    yield _tiled(c, after, view, target)
    if target.instructions:
        yield _tiled(c, after, view, target, matrix=False)
    read = c.swapped() if swap else c
    if len(read.inner) == 1 and target.lanes(read.accumulate) > 1:
        yield inner_product_choice.chosen(read, swap, target)
    if all(isinstance(a.extent, int) for a in (read.columns, *read.inner)):
        yield autovectorized.chosen(read, swap)
    if streamed_choice.streams(c, view, target) is not None:
        yield streamed_choice.chosen(c, view, after, target)


def _as_read(c: Contraction, view: OperandView, target: Target) -> tuple[bool, Contraction]:
    """Whether the operands are exchanged, and the contraction then, or in words of bytes."""
    if byte_words.able(c, target):
        return False, byte_words.in_words(c)
    swap = inner_product_choice.swaps(c, view)
    return swap, c.swapped() if swap else c


def _tiled(
    given: Contraction, after: Epilogue, view: OperandView, target: Target, matrix: bool = True
) -> GemmSchedule:
    """The schedule of a register-blocked product, also by a `matrix` unit where that pays."""
    swap, c = _as_read(given, view, target)
    rows = (max(1, c.rows[0].usual), max(1, c.rows[1].usual))
    columns, depth = max(1, c.columns.usual), max(1, size_hint(c.depth))
    tile = register_tile.choose(target, c.accumulate, rows, columns, depth)
    # tall tiles fill whole squares of vectors, which are transposed in registers
    if register_transpose.pays(after, c, tile, target):
        columns = min(columns, register_transpose.WIDE * tile.lanes)
        tile = register_tile.choose(target, c.accumulate, rows, columns, depth)
    unit = tile_choice.choose(packing.merged(c), tile, after, target) if matrix else None
    right, dtype = _right(c, unit or tile, view, target)
    if unit is not None:
        return tile_choice.chosen(gemm(c, after, swap, unit, right, dtype, target))
    if c.word and depth > 1 and byte_words.paired(given, tile.lanes, target):
        c, dtype = byte_words.in_words(given, DType.I64), DType.I64
    return gemm(c, after, swap, tile, right, dtype, target)


def gemm(
    c: Contraction,
    after: Epilogue,
    swap: bool,
    tile: RegisterTile,
    right: Operand,
    dtype: DType,
    target: Target,
) -> GemmSchedule:
    """The schedule of a gemm with this tile and this way of reading the right operand."""
    packed = right != "direct"
    axes = packing.merged(c) if packed else c
    blocking = cache_blocking.choose(axes, tile, target)
    if right == "panel":  # each piece would pack it again
        blocking = replace(blocking, piece=cache_blocking.row_tiles(axes, tile, blocking), parts=1)
    cut = cache_blocking.cut(axes, tile, blocking)
    turned = isinstance(c.columns.extent, int) and register_transpose.pays(after, c, tile, target)
    template = BytesGemmSchedule if c.word else GemmSchedule
    return template(
        swap,
        tile,
        right,
        dtype,
        blocking,
        # pairs of i16: measured, bench/NOTES.md, 1 December 2026
        (1, 1) if target.size else (2, 2) if c.left.dtype is DType.I16 else (4, 2),
        True,
        "fewer" if register_tile.apart(target) else "right",
        cache_blocking.threads(axes, cut, target),
        packed and right != "panel" and prefetch.pays(axes, dtype, target),
        turned,
        after.weight > LONG_EPILOGUE or (turned and register_transpose.reads_rows(after, c, tile)),
        c.right.constant and streams(axes, tile, blocking),
    )


def streams(c: Contraction, tile: RegisterTile, blocking: CacheBlocking) -> bool:
    """Whether the right operand is read once from end to end, so that it could also be read
    backwards.
    """
    known = all(isinstance(a.extent, int) for a in (*c.outer, *c.rows, *c.inner, c.columns))
    extents = (c.rows[0].extent, c.rows[1].extent)
    return known and extents == tile.rows and not blocking.chunk


def _readable(c: Contraction, tile: RegisterTile, view: OperandView, target: Target) -> bool:
    """Whether vectors of columns can be read in place."""
    whole = divisor(c.columns.extent) % tile.lanes == 0 or target.masked or tile.lanes == 1
    return c.columns.right == 1 and whole and view.folded is None


def _right(
    c: Contraction, tile: RegisterTile, view: OperandView, target: Target
) -> tuple[Operand, DType]:
    """How the right operand is read, and in which dtype."""
    readable = _readable(c, tile, view, target)
    reuse = -(-c.rows[0].usual // tile.rows[0]) * -(-c.rows[1].usual // tile.rows[1])
    # constants of a narrow type are not widened, so that they stay small
    quantised = c.right.dtype is DType.I8 and c.accumulate.is_float
    dtype = c.accumulate if reuse > 2 and not quantised else c.right.dtype
    if c.right.constant:
        if c.word:
            return "constant", c.right.dtype
        if readable and (target.size or packing.is_packed_already(c, tile)):
            return "direct", c.right.dtype
        return "constant", dtype
    if c.word:
        return "running", c.right.dtype
    near = size_hint(c.depth * c.columns.extent) * c.right.dtype.nbytes <= target.l1_bytes // 2
    unconverted = c.right.dtype is c.accumulate and packing.reads_well(c, tile, reuse, target)
    blocking = cache_blocking.choose(packing.merged(c), tile, target)
    fits = cache_blocking.fits_panel(c, tile, dtype, blocking.chunk, target)
    if readable and (target.size or reuse <= 2 or near):
        return "direct", c.right.dtype
    panel = fits and cache_blocking.pays_panel(c, tile, target)
    if readable and unconverted:
        return "panel" if panel and not packing.stays(c, tile, target) else "direct", c.right.dtype
    room, packed = target.temporary_bytes, packing.packed_layout(c, tile, dtype)[2]
    large = 0 < room < size_hint(packed) * dtype.nbytes
    return "panel" if panel or (large and fits) else "running", dtype


def check(
    schedule: ContractionSchedule,
    c: Contraction,
    after: Epilogue,
    view: OperandView,
    target: Target,
) -> None:
    """Raises Misfit for a schedule by which the contraction cannot be computed."""
    if isinstance(schedule, StreamedGemmSchedule):
        streamed_choice.check(schedule, c, view, after, target)
        return
    if schedule.swap and not inner_product_choice.swaps(c, view):
        raise Misfit(("swap",), "only a product with one column of a matrix can be swapped")
    c = c.swapped() if schedule.swap else c
    match schedule:
        case InnerProductSchedule():
            inner_product_choice.check(schedule, c, view, target)
        case AutovectorizedSchedule():
            autovectorized.check(schedule, c, view)
        case GemmSchedule():
            _check_gemm(schedule, c, after, view, target)


def _check_gemm(
    schedule: GemmSchedule, c: Contraction, after: Epilogue, view: OperandView, target: Target
) -> None:
    if isinstance(schedule, BytesGemmSchedule):
        if not byte_words.able(c, target):
            raise Misfit(
                ("template",), "its operands are not words of which this target adds the products"
            )
        if schedule.dtype not in byte_words.COUNTS:
            raise Misfit(("dtype",), "it can be i32, or i64 for two words at once")
        if schedule.dtype is DType.I64 and not byte_words.paired(c, schedule.tile.lanes, target):
            raise Misfit(
                ("dtype",),
                "two words a step need a constant of whole pairs, in half a vector of columns",
            )
        c = byte_words.in_words(c, schedule.dtype)
    tile = schedule.tile
    _check_tile(schedule, c, target)
    _check_right(schedule, c, view, target)
    axes = packing.merged(c) if schedule.right != "direct" else c
    cache_blocking.check(schedule.blocking, axes, tile, target)
    if schedule.threads.loops > 1:
        raise Misfit(
            ("threads", "loops"),
            "threads can share only one loop: all loops around tiles are fused",
        )
    in_place = schedule.right in ("direct", "panel")
    if schedule.prefetch and (in_place or not target.vector_bytes):
        raise Misfit(
            ("prefetch",), "only packed panels are prefetched: they are read in consecutive order"
        )
    known = isinstance(c.columns.extent, int)
    if schedule.transposed_store and not (known and register_transpose.able(after, c, tile)):
        raise Misfit(
            ("transposed_store",), "results are not contiguous along rows, or tiles have one row"
        )
    if schedule.backward and not (c.right.constant and streams(axes, tile, schedule.blocking)):
        raise Misfit(
            ("backward",),
            "only a constant that is read once, by one row of tiles, can be read backward",
        )


def _check_tile(schedule: GemmSchedule, c: Contraction, target: Target) -> None:
    if isinstance(schedule, MatrixGemmSchedule):
        tile_choice.check(schedule, packing.merged(c), target)
        return
    tile = schedule.tile
    most = target.lanes(c.accumulate)
    if tile.lanes & (tile.lanes - 1) or tile.lanes > most:
        raise Misfit(("tile", "lanes"), f"it must be a power of two, at most {most} on this target")
    height = tile.rows[0] * tile.rows[1]
    used = register_tile.registers(height, tile.vectors, target, c.accumulate)
    if used > target.vector_registers and (height, tile.vectors) != (1, 1):
        raise Misfit(
            ("tile",), f"it takes {used} registers, and there are {target.vector_registers}"
        )
    for axis, (rows, loop) in enumerate(zip(tile.rows, c.rows, strict=True)):
        if rows > max(1, loop.usual):
            raise Misfit(("tile", "rows", axis), f"there are {max(1, loop.usual)} rows")


def _check_right(schedule: GemmSchedule, c: Contraction, view: OperandView, target: Target) -> None:
    if schedule.right == "direct" and not _readable(c, schedule.tile, view, target):
        raise Misfit(("right",), "its columns are not contiguous, or not whole vectors of the tile")
    if schedule.right == "direct" and c.word:
        raise Misfit(("right",), "operands that are multiplied in words must be packed")
    chunk = schedule.blocking.chunk
    if schedule.right == "panel" and not cache_blocking.fits_panel(
        c, schedule.tile, schedule.dtype, chunk, target
    ):
        raise Misfit(("right",), "a panel is too large for a local array, or of an open size")
    if schedule.right == "constant" and not c.right.constant:
        raise Misfit(("right",), "it is known only when the program runs")
    if schedule.right in ("running", "panel") and c.right.constant:
        raise Misfit(("right",), "it is a constant, which is packed at compile time")
    able = (
        {c.right.dtype} if schedule.right == "direct" or c.word else {c.right.dtype, c.accumulate}
    )
    if schedule.dtype not in able:
        words = " or ".join(sorted(d.value for d in able))
        raise Misfit(("dtype",), f"it can be {words}")
