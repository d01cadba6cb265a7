"""Chooses whether the sum of a contraction is the outermost loop, and the tiles and pieces.

Gradients for weights are such: the sum is over all pixels of a batch, and both operands have
channels side by side, so that a step reads a few lines of each. With the sum inside of tiles, every
panel of columns reads the left operand again, a line for a few elements, unless it is transposed
first. Whether sums are streamed decides how they round, so only shipped facts are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from xlac.codegen.core import summation
from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.codegen.core.contraction.packing import TURNED
from xlac.codegen.core.contraction.partial_tiles import FEW, PRODUCTS, WHOLE
from xlac.codegen.core.contraction.tiling import RegisterTile, even_split, unroll
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import check_threads
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.run_copy import row_length
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.gemm.cache_blocking import pays_threads, shared
from xlac.codegen.cpu.gemm.register_transpose import dense
from xlac.codegen.schedules.gemm import StreamedGemmSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, Var
from xlac_sdk.target import Target

ROWS, COLUMNS = 8, 8  # of a result from which copies of both operands are worth their time
SUMS = 1 << 16  # sums of a piece that wait in memory, at most
LOCAL = 3 << 19  # bytes of a piece's local arrays, at most: three quarters of a thread's stack
UNROLL = 2


@dataclass(frozen=True, slots=True)
class RowRun:
    """Row axes that follow each other in memory, from the outermost: one run of elements of the
    left operand; `loops` are their numbers among the contraction's outer axes and its two rows.
    """

    loops: tuple[int, ...]
    extents: tuple[int, ...]
    stride: int

    @property
    def extent(self) -> int:
        """The number of elements."""
        return prod(self.extents)


@dataclass(frozen=True, slots=True)
class Streams:
    """The loops of a streamed contraction: numbers of its outer axes that the right operand has,
    and the runs of the others and the rows, of which the last is contiguous.
    """

    outer: tuple[int, ...]
    runs: tuple[RowRun, ...]

    @property
    def run(self) -> int:
        """The elements of the contiguous run."""
        return self.runs[-1].extent

    @property
    def count(self) -> int:
        """How many such runs there are."""
        return prod(run.extent for run in self.runs[:-1])


def streams(c: Contraction, view: OperandView, target: Target) -> Streams | None:
    """The loops of a contraction of static sizes whose sum can be streamed; None if it cannot."""
    axes = (*c.outer, *c.rows)
    every = (*axes, c.columns, *c.inner)
    if (
        not all(isinstance(n, int) for a in every for n in (a.extent, a.left, a.right))
        or any(a.extent == 0 for a in every)
        or not c.accumulate.is_float
        or c.word
        or c.borders
        or c.left.computed
        or c.right.computed
        or view.folded is not None
        or c.columns.right != 1
        or not target.vector_bytes
    ):
        return None
    outer = tuple(n for n, axis in enumerate(c.outer) if axis.right != 0)
    rows = [n for n, axis in enumerate(axes) if n not in outer and axis.extent != 1]
    runs = _runs({n: axes[n] for n in rows})
    return Streams(outer, runs) if runs and runs[-1].stride == 1 else None


def _runs(axes: dict[int, Axis]) -> tuple[RowRun, ...]:
    """The runs of row axes, by descending stride."""
    runs: list[RowRun] = []
    for n, axis in sorted(axes.items(), key=lambda item: -size_hint(item[1].left)):
        extent, stride = size_hint(axis.extent), size_hint(axis.left)
        if runs and runs[-1].stride == stride * extent:
            last = runs[-1]
            runs[-1] = RowRun((*last.loops, n), (*last.extents, extent), stride)
        else:
            runs.append(RowRun((n,), (extent,), stride))
    return tuple(runs)


def pays(c: Contraction, view: OperandView, target: Target) -> bool:
    """Whether streaming a sum is estimated to be faster than copies of operands."""
    if target.size or c.right.constant or c.left.constant or target.lanes(c.accumulate) < 2:
        return False
    found = streams(c, view, target)
    return found is not None and suits(
        found.run * found.count, size_hint(c.columns.extent), size_hint(c.depth)
    )


def suits(rows: int, columns: int, depth: int) -> bool:
    """Whether a sum of `depth` products is long enough, for a result that is large enough."""
    return rows >= ROWS and columns >= COLUMNS and depth > WHOLE


def can_transpose(
    c: Contraction, found: Streams, tile: RegisterTile, after: Epilogue, target: Target
) -> bool:
    """Whether every output is contiguous along the rows of a tile, and vectors of columns form
    squares that can be stored in part.
    """
    (*outer, first, second) = [Var(f"t_{n}", build.INDEX) for n in range(len(c.outer) + 2)]
    last, columns = found.runs[-1], size_hint(c.columns.extent)
    if len(last.loops) > 1 or columns % tile.width or not target.masked or tile.lanes < 2:
        return False
    counters: list[Expr] = [*outer, first, second]
    (place,) = last.loops
    counters[place] = build.ramp(counters[place], 1, tile.lanes)
    at = c.place(counters[:-2], (counters[-2], counters[-1]), Var("n", build.INDEX))
    return tile.lanes <= TURNED and all(dense(after, node, at) for node in after.group.outputs)


def block(c: Contraction) -> int:
    """Steps of a block of the sum, which registers add up."""
    return min(summation.turns(c.depth, PRODUCTS), size_hint(c.depth))


def chosen(
    c: Contraction, view: OperandView, after: Epilogue, target: Target
) -> StreamedGemmSchedule:
    """The schedule of a contraction whose sum can be streamed."""
    found = streams(c, view, target)
    assert found is not None
    columns = size_hint(c.columns.extent)
    tile = _tile(target.shipped, c.accumulate, found.run, columns)
    tiles, panels = -(-found.run // tile.rows[1]), -(-columns // tile.width)
    outer = prod(size_hint(c.outer[n].extent) for n in found.outer)
    each = tile.rows[1] * tile.width
    pieces = -(-found.count * tiles * panels * each // SUMS)
    if target.threads > 1 and pays_threads(c, target):
        pieces = max(pieces, -(-2 * target.threads // outer))
    most = found.count * tiles * panels
    while True:
        runs = even_split(found.count, max(1, found.count // pieces))
        others = -(-pieces // runs.count)
        down = even_split(tiles, max(1, tiles // others))
        across = even_split(panels, max(1, panels * down.count // others))
        piece = runs.step, down.step, across.step
        if pieces >= most or local_bytes(c, tile, *piece, found.run, target) <= LOCAL:
            break
        pieces += max(1, pieces // 4)
    items = outer * runs.count * down.count * across.count
    return StreamedGemmSchedule(
        tile,
        *piece,
        _unroll(block(c)),
        shared(c, items, target),
        can_transpose(c, found, tile, after, target),
    )


def local_bytes(
    c: Contraction,
    tile: RegisterTile,
    runs: int,
    row_tiles: int,
    panels: int,
    run: int,
    target: Target,
) -> int:
    """The bytes of a piece's local arrays: copies of a block of both operands, and sums, of which
    there are three each where there are many blocks. A run of the operand has `run` elements.
    """
    rows, columns, steps = row_tiles * tile.rows[1], panels * tile.width, block(c)
    left = row_length((runs - 1) * min(rows, run) + rows, c.accumulate, target)
    copies = steps * (left + row_length(columns, c.accumulate, target))
    sums = 3 if -(-size_hint(c.depth) // steps) > FEW else 1
    return (copies + sums * runs * rows * columns) * c.accumulate.nbytes


@cache
def _tile(target: Target, dtype: DType, rows: int, columns: int) -> RegisterTile:
    """The tile of the fewest cycles: those at the end are computed whole, as one loop has all."""
    lanes = register_tile.lanes_for(target, dtype, columns)
    vectors = -(-columns // lanes)
    best: tuple[float, RegisterTile] | None = None
    for tall in range(1, min(rows, target.vector_registers) + 1):
        for wide in range(1, min(register_tile.WIDEST, vectors) + 1):
            if register_tile.registers(tall, wide, target) > target.vector_registers:
                break
            down, across = even_split(rows, tall), even_split(vectors, wide)
            step = register_tile.cycles(down.step, across.step, target.hardware)
            total = down.count * across.count * step
            if best is None or total < best[0] * 0.995:
                best = total, RegisterTile((1, down.step), across.step, lanes)
    assert best is not None
    return best[1]


def _unroll(steps: int) -> int:
    """The unroll factor: one that divides the steps of a block."""
    wanted = unroll(steps, UNROLL)
    return wanted if steps % wanted == 0 else 1


def check(
    schedule: StreamedGemmSchedule,
    c: Contraction,
    view: OperandView,
    after: Epilogue,
    target: Target,
) -> None:
    """Raises Misfit for a schedule that a contraction cannot have."""
    found, tile = streams(c, view, target), schedule.tile
    if found is None:
        raise Misfit(("template",), "operands are not contiguous along rows and columns")
    most = target.lanes(c.accumulate)
    if tile.lanes & (tile.lanes - 1) or tile.lanes > most:
        raise Misfit(("tile", "lanes"), f"it must be a power of two, at most {most} on this target")
    if tile.rows[0] != 1:
        raise Misfit(("tile", "rows", 0), "a tile has rows of one axis")
    if tile.rows[1] > found.run:
        raise Misfit(("tile", "rows", 1), f"there are {found.run} rows")
    used = register_tile.registers(tile.rows[1], tile.vectors, target)
    if used > target.vector_registers and (tile.rows[1], tile.vectors) != (1, 1):
        raise Misfit(
            ("tile",), f"it takes {used} registers, and there are {target.vector_registers}"
        )
    tiles, panels = -(-found.run // tile.rows[1]), -(-size_hint(c.columns.extent) // tile.width)
    for name, most in (("runs", found.count), ("row_tiles", tiles), ("panels", panels)):
        if getattr(schedule, name) > most:
            raise Misfit((name,), f"there are {most}")
    if schedule.runs > 1 and schedule.row_tiles < tiles:
        raise Misfit(("row_tiles",), f"a piece of several runs has all {tiles} tiles of each")
    piece = schedule.runs, schedule.row_tiles, schedule.panels
    taken = local_bytes(c, tile, *piece, found.run, target)
    if taken > max(LOCAL, local_bytes(c, tile, 1, 1, 1, found.run, target)):
        raise Misfit(("row_tiles",), f"a piece takes {taken:,} bytes of a stack")
    if block(c) % schedule.unroll:
        raise Misfit(("unroll",), f"it must divide {block(c)} steps")
    if schedule.transposed_store and not can_transpose(c, found, tile, after, target):
        raise Misfit(("transposed_store",), "results are not contiguous along rows")
    check_threads(schedule.threads, 1)
