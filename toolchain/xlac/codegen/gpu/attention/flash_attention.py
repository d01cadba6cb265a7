"""Attention of many queries: a block keeps some rows of queries and goes over the keys, tile by
tile.

Each warp has 16 rows, which tensor cores multiply, or its threads where f32 is not to be rounded.
Their scores with a tile's keys stay in registers, become weights relative to the greatest score so
far, and multiply the tile's values; what was summed before is scaled when the greatest score
changes. Tiles that later positions hide are left out.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from xlac.codegen.core.attention_problem import LOWEST, AttentionProblem, exponential
from xlac.codegen.core.contraction import multiply_add, unravel, zero
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.matrix_operand import Counters, MatrixOperand
from xlac.codegen.gpu.attention import fragments
from xlac.codegen.gpu.attention.fragments import BY_CORES, BY_QUADS
from xlac.codegen.gpu.core import instructions, pipeline
from xlac.codegen.gpu.core.grid import GridThread, at_least, grid
from xlac.codegen.gpu.core.instructions import (
    CHUNK,
    COLUMNS,
    LANES,
    MMA,
    ROWS,
    FragmentOperand,
    Swizzled,
)
from xlac.codegen.gpu.core.pipeline import Lane
from xlac.codegen.gpu.core.shared_staging import SharedStaging, tile_shape
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, divisor, size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Exchange, Expr, LoopKind, Shuffle, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
KEYS = (64, 32, 16)  # of a tile, the more the better
STAGES = 2
WIDEST = {2: 256, 4: 128}  # elements of a row of queries, keys or values, by the bytes of one
F32 = DType.F32


@dataclass(frozen=True, slots=True)
class FlashTile:
    """Warps of a block, each with 16 rows; the widths of keys and values filled up to powers of
    two; keys of a tile.
    """

    dtype: DType
    warps: int
    width: int
    wide: int
    keys: int

    @property
    def rows(self) -> int:
        return self.warps * ROWS

    @property
    def shared_bytes(self) -> int:
        return self.dtype.nbytes * (
            self.rows * (self.width + self.keys) + STAGES * self.keys * (self.width + self.wide)
        )


def takes(widths: tuple[int, int], dtype: DType, target: Target) -> bool:
    """True for halves that tensor cores multiply, and f32, of a width whose sums stay in registers."""
    if (
        target.warp != LANES
        or target.block_threads < target.warp
        or dtype not in MMA
        or not dtype.is_float
    ):
        return False
    fits = (
        max(widths) <= WIDEST[dtype.nbytes]
        and _tile(dtype, widths, 1, KEYS[1]).shared_bytes <= target.shared_bytes
    )
    return fits and (dtype is F32 or MMA[dtype] in target.instructions)


def _tile(dtype: DType, widths: tuple[int, int], warps: int, keys: int) -> FlashTile:
    width, wide = (max(2 * COLUMNS, at_least(w)) for w in widths)
    return FlashTile(dtype, warps, width, wide, keys)


def choose(h: AttentionProblem, target: Target) -> FlashTile:
    """As many warps as there are rows and room for, of tiles of few keys where registers are full
    of results; threads that multiply for themselves in blocks of half as many, two at once."""
    by_threads = MMA[h.dtype] not in target.instructions
    room = target.shared_bytes // 2 if by_threads else target.shared_bytes
    full = (
        0 if by_threads else 2 if max(h.widths) > 128 else int(max(h.widths) * h.dtype.nbytes > 256)
    )
    for warps in (4, 2) if by_threads else (8, 4, 2):
        for keys in KEYS[full:]:
            tile = _tile(h.dtype, h.widths, warps, keys)
            fits = warps * target.warp <= target.block_threads and tile.shared_bytes <= room
            if fits and tile.rows <= 2 * size_hint(h.rows):
                return tile
    return next(
        t
        for t in (_tile(h.dtype, h.widths, 1, keys) for keys in KEYS)
        if t.shared_bytes <= target.shared_bytes
    )


def launches(
    group: Group, target: Target, name: str, h: AttentionProblem, after: Epilogue
) -> list[KernelLaunch]:
    elements = Elements(Builder(), group, target)
    Prefill(elements, after, h, choose(h, target), target).write()
    return [elements.launch(name, cost.work(group))]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a thread's fragments: which half of its results, its number, and what is known of
    it.
    """

    half: int
    number: Expr  # of the row; past the last one, of the last
    inside: Expr | None  # whether there is such a row, where that is not known
    greatest: Var
    weight: Var


class Prefill:
    """Writes the kernel's body with the builder of `elements`."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        h: AttentionProblem,
        tile: FlashTile,
        target: Target,
    ) -> None:
        self.elements, self.builder, self.after, self.h, self.tile, self.target = (
            elements,
            elements.builder,
            after,
            h,
            tile,
            target,
        )
        self.by_cores = MMA[h.dtype] in target.instructions
        # queries; keys, as the scores read them
        self.by_query = Swizzled(h.dtype, tile.width, along_depth=True)
        # these tensor cores read columns along the sum only
        turned = self.by_cores and h.dtype is F32
        of_values = (
            Swizzled(h.dtype, tile.keys, along_depth=True)
            if turned
            else Swizzled(h.dtype, tile.wide, along_depth=False)
        )
        self.by_key = Swizzled(h.dtype, tile.width, along_depth=False), of_values
        self.of_weights = Swizzled(h.dtype, tile.keys, along_depth=True)
        self.pairs = BY_CORES if self.by_cores else BY_QUADS  # of the weighted values

    def write(self) -> None:
        """A block for some rows of every key head; those that see most keys first."""
        h, tile, builder = self.h, self.tile, self.builder
        tiles = ceil_div(h.rows, tile.rows)
        extents = [*h.batch, tiles]
        with grid(builder, self.target, volume(tuple(extents)), tile.warps * self.target.warp) as g:
            *batch, number = unravel(builder, g.block, extents)
            down = build.sub(tiles - 1, number) if h.gap is not None else number
            first = builder.let("first", build.mul(bounded(builder, down, tiles - 1), tile.rows))
            self._thread(g, batch, first)

    def _thread(self, g: GridThread, batch: Counters, first: Expr) -> None:
        h, tile, builder, dtype = self.h, self.tile, self.builder, self.h.dtype
        queries = g.shared("queries", dtype, tile.rows * tile.width)
        memory = [
            g.shared(hint, dtype, STAGES * tile.keys * n)
            for hint, n in (("keys", tile.width), ("values", tile.wide))
        ]
        shares = g.shared("shares", dtype, tile.rows * tile.keys)
        warp, lane = (
            builder.let("warp", build.div(g.thread, g.warp)),
            builder.let("lane", build.mod(g.thread, g.warp)),
        )
        row = builder.let("row", build.mul(warp, ROWS))
        self._queries(g.thread, batch, first, queries)
        lanes = []
        for side, layout, buffer, width in zip(
            (h.keys, h.values), self.by_key, memory, (tile.width, tile.wide), strict=True
        ):
            staging = self._staging(side, (h.length,), width, tile.keys, layout)
            staging.begin(g.thread, build.index(0), batch)
            lanes.append(Lane(staging, buffer, tile.keys * width))
        scores = builder.local("scores", F32, tile.keys // COLUMNS * 4)
        sums = builder.local("sums", F32, tile.wide // COLUMNS * 4)
        self._clear(sums)
        rows = [
            self._row(
                build.add(build.add(first, row), build.add(build.div(lane, 4), half * 8)), half
            )
            for half in range(2)
        ]
        column = builder.let("column", BY_CORES.first(lane))

        def multiply(k: Expr, starts: list[Expr]) -> None:
            self._clear(scores)
            left = FragmentOperand(queries, build.index(0), row, self.by_query)
            right = FragmentOperand(memory[0], starts[0], build.index(0), self.by_query)
            if self.by_cores:
                fragments.by_cores(builder, scores, left, right, tile.width, lane, tile.keys)
            else:
                fragments.along_depth(
                    builder, self.target, scores, left, right, tile.width, lane, tile.keys
                )
            self._mask(scores, rows, batch, first, k, column)
            for one in rows:
                self._weigh(
                    scores,
                    sums,
                    one,
                    shares,
                    build.add(row, build.add(build.div(lane, 4), one.half * 8)),
                    column,
                )
            builder.emit(instructions.warp_barrier())
            left = FragmentOperand(shares, build.index(0), row, self.of_weights)
            right = FragmentOperand(memory[1], starts[1], build.index(0), self.by_key[1])
            if self.by_cores:
                fragments.by_cores(builder, sums, left, right, tile.keys, lane, tile.wide)
            else:
                fragments.across(
                    builder, self.target, sums, left, right, tile.keys, lane, tile.wide
                )

        pipeline.run(
            builder,
            self.target,
            lanes,
            build.index(0),
            self._end(first),
            tile.keys,
            STAGES,
            multiply,
            h.length,
        )
        self._store(sums, rows, batch, builder.let("column", self.pairs.first(lane)))

    # ---- memory ------------------------------------------------------------------------------

    def _staging(
        self, side: MatrixOperand, depths: tuple[Dim], span: int, step: int, layout: Swizzled
    ) -> SharedStaging:
        most = max(1, min(CHUNK, self.target.access_bytes) // self.h.dtype.nbytes)
        shape = tile_shape(side, depths, span, step, most)
        return SharedStaging(
            self.elements,
            side,
            depths,
            shape,
            self.h.dtype,
            self.tile.warps * self.target.warp,
            layout,
        )

    def _queries(self, thread: Expr, batch: Counters, first: Expr, buffer: Buffer) -> None:
        """The block's queries; they are there when the first keys are."""
        start = build.index(0)
        staging = self._staging(
            self.h.queries, (self.h.widths[0],), self.tile.rows, self.tile.width, self.by_query
        )
        staging.begin(thread, first, batch)
        if staging.sends(self.target):
            staging.send(start, buffer, start)
        else:
            staging.put(staging.fetch(start, beyond=False), buffer, start)

    def _end(self, first: Expr) -> build.Number:
        """Where the block's keys end: at the last, or the last that its last row sees."""
        h, keys = self.h, self.tile.keys
        whole = ceil_div(h.length, keys) * keys
        within = h.shared == 1 or divisor(h.time) % self.tile.rows == 0  # all rows are of one head
        if h.gap is None or not h.sees_start or not within:
            return whole
        time = build.mod(first, h.time) if h.shared > 1 else first
        seen = build.mul(build.div(build.add(time, self.tile.rows + h.gap + keys - 1), keys), keys)
        return bounded(self.builder, build.apply(P.MIN, seen, build.lift(whole)), whole)

    def _clear(self, buffer: Buffer) -> None:
        with self.builder.loop("z", 0, buffer.size, 2, kind=LoopKind.UNROLLED) as z:
            self.builder.store(buffer, z, zero(F32, 2))

    # ---- scores and weights ------------------------------------------------------------------

    def _row(self, number: Expr, half: int) -> _Row:
        """A row; one past the last is looked at as the last, and not stored."""
        builder, inside = self.builder, None
        if divisor(self.h.rows) % self.tile.rows:
            inside = builder.let("inside", build.apply(P.LT, number, build.lift(self.h.rows)))
            number = build.apply(P.MIN, number, build.lift(self.h.rows - 1))
        greatest = builder.variable("greatest", Const(LOWEST[F32], F32))
        return _Row(
            half,
            bounded(builder, number, self.h.rows - 1),
            inside,
            greatest,
            builder.variable("weight", zero(F32, 1)),
        )

    def _mask(
        self, scores: Buffer, rows: list[_Row], batch: Counters, first: Expr, k: Expr, column: Expr
    ) -> None:
        """Scales the scores; hides what may not be seen, in tiles where there is any such thing."""
        h, builder, keys = self.h, self.builder, self.tile.keys
        edges = []
        if divisor(h.length) % keys:
            edges.append(build.apply(P.LT, build.lift(h.length), build.add(k, keys)))
        if h.gap is not None:
            time = build.index(0) if h.shared > 1 else first  # no row of the block is earlier
            edges.append(build.apply(P.LT, build.add(time, h.gap), build.add(k, keys - 1)))
        if h.mask is not None or not edges:
            self._score(scores, rows, batch, k, column, masked=bool(edges) or h.mask is not None)
            return
        edge = edges[0] if len(edges) == 1 else build.apply(P.OR, *edges)
        edge = builder.let("edge", edge)
        with builder.when(edge):
            self._score(scores, rows, batch, k, column, masked=True)
        with builder.when(build.apply(P.NOT, edge)):
            self._score(scores, rows, batch, k, column, masked=False)

    def _score(
        self, scores: Buffer, rows: list[_Row], batch: Counters, k: Expr, column: Expr, masked: bool
    ) -> None:
        h, builder = self.h, self.builder
        end = build.lift(h.length) if divisor(h.length) % self.tile.keys else None
        for row in rows:
            for at in range(self.tile.keys // COLUMNS):
                place = at * 4 + row.half * 2
                product = build.load(scores, place, 2)
                if masked:
                    key = build.ramp(build.add(build.add(k, at * COLUMNS), column), 1, 2)
                    score = h.scored(self.elements, batch, row.number, key, product, end)
                else:
                    score = build.apply(P.MUL, product, Const(h.scale, F32))
                builder.store(scores, place, score)

    def _weigh(
        self, scores: Buffer, sums: Buffer, row: _Row, shares: Buffer, place: Expr, column: Expr
    ) -> None:
        """Weights of a row's keys relative to the greatest score, into SHARED memory; scales what
        was summed before.
        """
        builder = self.builder
        parts = [
            builder.let("score", build.load(scores, at * 4 + row.half * 2, 2))
            for at in range(self.tile.keys // COLUMNS)
        ]
        top = parts[0]
        for part in parts[1:]:
            top = builder.let("top", build.apply(P.MAX, top, part))
        top = self._among_four(P.MAX, build.fold(P.MAX, top))
        top = builder.let("top", build.apply(P.MAX, row.greatest, top))
        less = builder.let("less", exponential(build.apply(P.SUB, row.greatest, top)))
        builder.assign(row.greatest, top)
        total: Expr = zero(F32, 2)
        for at, part in enumerate(parts):
            share = builder.let("share", exponential(build.apply(P.SUB, part, build.splat(top, 2))))
            total = builder.let("total", build.apply(P.ADD, total, share))
            where = self.of_weights.place(place, build.add(column, at * COLUMNS))
            builder.store(
                shares, where, build.cast(share, self.h.dtype), align=2 * self.h.dtype.nbytes
            )
        builder.assign(
            row.weight, multiply_add(self.target, row.weight, less, build.fold(P.ADD, total))
        )
        for pair in range(self.tile.wide // COLUMNS):
            at = self.pairs.place(pair, row.half)
            builder.store(
                sums, at, build.apply(P.MUL, build.load(sums, at, 2), build.splat(less, 2))
            )

    def _among_four(self, primitive: Primitive, value: Expr) -> Expr:
        """Values of the four threads that share a row, combined."""
        for distance in (2, 1):
            value = self.builder.let("among", value)
            value = build.apply(primitive, value, Exchange(value, distance))
        return self.builder.let("among", value)

    def _store(self, sums: Buffer, rows: list[_Row], batch: Counters, column: Expr) -> None:
        builder = self.builder
        for row in rows:
            weight = self._among_four(P.ADD, row.weight)
            with builder.when(row.inside) if row.inside is not None else nullcontext():
                for pair in range(self.tile.wide // COLUMNS):
                    value = build.apply(
                        P.DIV,
                        build.load(sums, self.pairs.place(pair, row.half), 2),
                        build.splat(weight, 2),
                    )
                    self._pair(
                        batch,
                        row,
                        build.add(column, self.pairs.offset(pair)),
                        self.pairs.end(pair),
                        builder.let("value", value),
                    )

    def _pair(self, batch: Counters, row: _Row, column: Expr, end: int, value: Expr) -> None:
        """Two neighbours of a row from a column on, which lie before a column for every thread."""
        h, width = self.h, self.h.widths[1]

        def store(where: Expr, part: Expr) -> None:
            self.after.store(self.elements, h.place(batch, row.number, where), part)

        if end <= width:
            store(build.ramp(column, 1, 2), value)
            return
        for lane in range(2):
            one = build.add(column, lane)
            with self.builder.when(build.apply(P.LT, one, build.index(width))):
                store(one, Shuffle((value,), (lane,)))
