"""Chooses the tile of a contraction of bytes that a matrix unit computes, and whether it pays.

A tile is one or two groups of up to 16 rows, each with sums of up to 16 columns in a register, of
which there are four: two groups by two vectors of columns, or one by up to four. Where a row of the
result is short, two rows of it are the groups.

The costs are cycles of AMX on Granite Rapids, as `bench/NOTES.md` says; the unit is the same on all
processors that have it (Intel 64 and IA-32 Optimization Reference Manual, chapter 20).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from xlac.codegen.core.contraction.byte_words import BYTES, SIGNS
from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit, even_split
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.cpu.gemm import register_tile, register_transpose
from xlac.codegen.schedules.gemm import GemmSchedule, MatrixGemmSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Shape, static
from xlac_sdk.kernel_ir.matrix_tiles import MULTIPLY, ROWS, SUMS, WORDS, MatrixBlock, SumLoop
from xlac_sdk.target import Target

ROW = 1.15  # cycles of a row of a product of two registers
LATENCY = 46.0  # cycles until a product can add to the sums of another
LOAD = 0.3  # cycles of loading a row of a register, in addition to those of products
KEPT = 2.0  # cycles of a row of a register of sums: zeroed, stored, and loaded for the epilogue
ENTRY = 400.0  # cycles of configuring the registers and of releasing them, when a kernel begins


def able(c: Contraction, target: Target) -> bool:
    """Whether the target's matrix unit can compute a contraction in words of bytes."""
    word = SIGNS.get(c.left.dtype)
    if not c.word or c.words != 1 or word is None or MULTIPLY[word] not in target.instructions:
        return False
    known = (*c.rows, *c.inner, c.columns)
    numbers = [n for axis in known for n in (axis.extent, axis.left)]
    return (
        not c.borders
        and all(isinstance(n, int) for n in numbers)
        and all(axis.extent != 0 for axis in known)
        and c.inner[-1].left == BYTES
    )


def choose(
    c: Contraction, other: RegisterTile, after: Epilogue, target: Target
) -> RegisterTile | None:
    """The tile of a contraction, or None if the unit cannot compute it, if vectors with the tile
    `other` take no longer, or if their results would be transposed in registers.
    """
    if not able(c, target) or register_transpose.pays(after, c, other, target):
        return None
    first, second, columns, depth = _sizes(c)
    vectors = register_tile.whole(other, target, c.accumulate, (first, second), columns, depth)
    cost, best = min(
        ((whole(c, tile), tile) for tile in tiles(c)), key=lambda found: (found[0], *found[1].rows)
    )
    return best if cost < vectors else None


def chosen(gemm: GemmSchedule) -> MatrixGemmSchedule:
    """The schedule of a gemm whose tiles the matrix unit computes."""
    kept = {field.name: getattr(gemm, field.name) for field in fields(gemm)}
    own = {"transposed_store": False, "epilogue_loop": True, "backward": False}
    return MatrixGemmSchedule(**{**kept, **own})


def check(schedule: MatrixGemmSchedule, c: Contraction, target: Target) -> None:
    """Raises Misfit for a schedule by which the matrix unit cannot compute a contraction."""
    if not able(c, target):
        raise Misfit(("template",), "the target has no matrix unit for these operands")
    if schedule.tile not in tiles(c):
        raise Misfit(("tile",), "its rows and vectors are not those of the matrix unit's registers")
    if schedule.transposed_store or schedule.backward:
        raise Misfit(("transposed_store",), "the matrix unit's sums are stored row by row, once")


def whole(c: Contraction, tile: RegisterTile) -> float:
    """Estimated cycles of a contraction, without its epilogue: smaller tiles at the end of rows
    take as long as whole ones.
    """
    first, second, columns, depth = _sizes(c)
    steps = depth // step_words(c)
    down = -(-first // tile.rows[0]) * -(-second // tile.rows[1])
    across, total = TileSplit(-(-columns // tile.lanes), tile.vectors), ENTRY
    for vectors, panels in ((tile.vectors, across.full), (across.rest, int(across.rest > 0))):
        if panels:
            total += panels * down * _tile(tile, vectors, steps, step_words(c))
    return total


def _tile(tile: RegisterTile, vectors: int, steps: int, words: int) -> float:
    """Cycles of a tile with this many vectors of columns."""
    heights, rows = groups(tile), tile.rows[0] * tile.rows[1]
    latency = LATENCY / (len(heights) * vectors)
    products = vectors * sum(max(ROW * height, latency) for height in heights)
    step = products + LOAD * (rows + words * vectors)
    return steps * step + KEPT * rows * vectors


def tiles(c: Contraction) -> Iterator[RegisterTile]:
    """Every tile worth considering: of rows and vectors that are as equal as possible."""
    first, second, columns, _ = _sizes(c)
    vectors = -(-columns // WORDS)
    single = even_split(second, ROWS).step
    for rows in {(1, single), (1, even_split(second, 2 * ROWS).step), (min(2, first), single)}:
        most = SUMS // (1 if rows[0] == 1 and rows[1] <= ROWS else 2)
        for wide in range(1, min(most, vectors) + 1):
            yield RegisterTile(rows, even_split(vectors, wide).step, WORDS)


def groups(tile: RegisterTile) -> tuple[int, ...]:
    """The rows of each group of a tile."""
    two, many = tile.rows
    if two == 2:
        return many, many
    return (many,) if many <= ROWS else (many - many // 2, many // 2)


def step_words(c: Contraction) -> int:
    """Words of a step, the same in all steps of the sum: a divisor of its innermost loop."""
    (words,) = static((c.inner[-1].extent,))
    return max(n for n in range(1, WORDS + 1) if words % n == 0)


def block(
    c: Contraction, tile: RegisterTile, vectors: int, strides: Shape, share: int
) -> MatrixBlock:
    """The block of a tile with this many vectors of columns; `strides` are those of the summed
    axes in the panel, of which it prefetches a `share`-th part.
    """
    words, heights = step_words(c), groups(tile)
    axes = zip(c.inner, strides, strict=True)
    *loops, last = [SumLoop(*static((axis.extent, axis.left, by))) for axis, by in axes]
    inner = SumLoop(last.count // words, last.left * words, last.right * words)
    apart = c.rows[0].left if tile.rows[0] == 2 else c.rows[1].left * heights[0]
    row, group = static((c.rows[1].left, apart))
    return MatrixBlock(
        heights,
        (0, group)[: len(heights)],
        row,
        vectors,
        tile.lanes,
        words,
        last.right,
        share,
        (*loops, inner),
    )


def _sizes(c: Contraction) -> tuple[int, int, int, int]:
    """The extents of both row axes and of columns, and the words of a sum."""
    first, second, columns, depth = static(
        (c.rows[0].extent, c.rows[1].extent, c.columns.extent, c.depth)
    )
    return first, second, columns, depth
