"""Copies one panel of a contraction's right operand into the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction import byte_words
from xlac.codegen.core.contraction.byte_words import BYTES
from xlac.codegen.core.contraction.contraction import Contraction, zero
from xlac.codegen.core.contraction.memory_run import MemoryRun, RunAxis, memory_run
from xlac.codegen.core.contraction.packing import TURNED, transposed
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.elements import Elements
from xlac.ir.dims import Dim, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

AHEAD = 2  # cache lines by which columns are prefetched that are read along the sum


def run_of(c: Contraction) -> MemoryRun:
    """The summed axes that squares of vectors are read along; words have one order."""
    if not c.word:
        return memory_run(c.inner)
    last = len(c.inner) - 1
    return MemoryRun((RunAxis(last, c.inner[-1].extent, 1, backward=False),))


def can_transpose(c: Contraction, tile: RegisterTile) -> bool:
    """Whether squares of vectors can be read along summed axes and transposed in registers."""
    if c.columns.right == 1 or not 1 < tile.lanes <= TURNED:
        return False
    if c.word:
        return c.word == 1 and c.inner[-1].right == BYTES
    return bool(run_of(c).axes)


def transposing_pays(c: Contraction, tile: RegisterTile, target: Target) -> bool:
    """Whether squares are filled well enough to be faster than loads of single elements."""
    return can_transpose(c, tile) and _fills(run_of(c).length, tile.lanes, target)


def prefetching_pays(c: Contraction, target: Target) -> bool:
    """Whether columns are long enough to be prefetched."""
    return size_hint(run_of(c).length) >= 2 * _ahead(c, target)


def _fills(length: Dim, lanes: int, target: Target) -> bool:
    """Whether steps fill a square, or most of one whose vectors may be loaded in part."""
    return size_hint(length) >= lanes or (target.masked and 2 * size_hint(length) >= lanes)


def _ahead(c: Contraction, target: Target) -> int:
    """The elements by which columns are prefetched."""
    return AHEAD * target.hardware.line_bytes // c.right.dtype.nbytes


class PanelCopy:
    """Writes the copy of a panel, as elements of `dtype`, with the builder of `elements`.
    `transposes` reads along summed axes and transposes squares of vectors in registers, which
    `prefetch` what the next ones read.
    """

    def __init__(
        self,
        elements: Elements,
        c: Contraction,
        tile: RegisterTile,
        dtype: DType,
        *,
        transposes: bool,
        prefetch: bool,
    ) -> None:
        self.builder, self.target, self.c = elements.builder, elements.target, c
        self.dtype, self.lanes, self.run = dtype, tile.lanes, run_of(c)
        self.transposes, self.prefetch = transposes, prefetch
        self.source = elements.parameter(c.right.value, Access.READ)

    def write(
        self,
        to: Buffer,
        start: Expr,
        place: Expr,
        column: Expr,
        vectors: int,
        partial: build.Number,
    ) -> None:
        """Copies the panel that begins at `column`, of an operand that begins at `start`, to a
        place in `to`; `partial` columns of its last vector are valid, 0 if all are.
        """
        self.to = to
        first = build.add(start, build.mul(column, self.c.columns.right))
        squares = self.transposes and isinstance(partial, int)
        apart = self.run.levels if squares else frozenset[int]()
        levels = [level for level in range(len(self.c.inner)) if level not in apart]
        self._steps(levels, first, place, vectors, partial=partial, squares=squares)

    def _steps(
        self,
        levels: Sequence[int],
        where: Expr,
        to: Expr,
        vectors: int,
        *,
        partial: build.Number,
        squares: bool,
    ) -> None:
        """The loops over some summed axes, the others in `squares`."""
        builder, c = self.builder, self.c
        if not levels and squares:
            assert isinstance(partial, int)
            self._squares(where, to, vectors, partial)
            return
        if not levels:
            self._each(where, to, vectors, partial)
            return
        axis = c.inner[levels[0]]
        stride = row_major([a.extent for a in c.inner])[levels[0]] * (vectors * self.lanes)
        with builder.loop("k", 0, axis.extent) as k:
            here, there = build.mul(k, axis.right), build.mul(k, stride)
            self._steps(
                levels[1:],
                build.add(where, here),
                build.add(to, there),
                vectors,
                partial=partial,
                squares=squares,
            )

    def _each(self, where: Expr, to: Expr, vectors: int, partial: build.Number) -> None:
        """One step of the sum, for all vectors of a panel."""
        for j in range(vectors):
            self._move(where, to, j, partial if j == vectors - 1 else 0)

    def _squares(self, where: Expr, to: Expr, vectors: int, partial: int) -> None:
        """The run of summed axes that memory has side by side, in squares of as many steps as a
        vector has lanes.
        """
        builder, run, lanes = self.builder, self.run, self.lanes
        first = builder.let("x", build.add(where, run.first))
        main = run.length // lanes * lanes
        with builder.loop("k", 0, main, lanes) as place:
            self._transpose(first, place, to, vectors, partial, lanes)
        left = run.length - main
        if isinstance(left, int) and left and _fills(left, lanes, self.target):
            self._transpose(first, build.lift(main), to, vectors, partial, left)
            return
        with builder.loop("k", main, run.length) as place:
            step = build.mul(run.step_of(builder, place), vectors * lanes)
            self._each(build.add(first, self._reach(place)), build.add(to, step), vectors, partial)

    def _reach(self, place: Expr) -> Expr:
        """The offset of a place of the run from its first element."""
        return build.mul(place, BYTES) if self.c.word else place

    def _transpose(
        self, first: Expr, place: Expr, to: Expr, vectors: int, partial: int, steps: int
    ) -> None:
        """Packs `steps` neighbours of the run, at most a vector: a square of columns read along the
        run at a time, in a loop (a square alone is a hundred instructions).
        """
        builder, side = self.builder, self.lanes
        where = build.add(first, self._reach(place))
        mask = None
        if steps < side:
            counts = build.ramp(0, 1, side)
            mask = builder.let("mask", build.apply(Primitive.LT, counts, build.lift(steps)))
        width = vectors * side
        rows = [
            builder.let("p", build.add(to, build.mul(self.run.step_of(builder, at), width)))
            for at in (build.add(place, n) for n in range(steps))
        ]
        whole = vectors - bool(partial)
        apart = build.mul(self.c.columns.right, side)
        if whole > 1:
            with builder.loop("j", 0, whole) as j:
                there = [build.add(row, build.mul(j, side)) for row in rows]
                self._square(build.add(where, build.mul(j, apart)), there, side, mask)
        elif whole:
            self._square(where, rows, side, mask)
        if partial:
            there = [build.add(row, whole * side) for row in rows]
            self._square(build.add(where, build.mul(apart, whole)), there, partial, mask)

    def _square(self, where: Expr, rows: Sequence[Expr], columns: int, mask: Expr | None) -> None:
        """Packs one vector of each of these steps: `columns` of its lanes, and zeros beyond."""
        builder, lanes = self.builder, self.lanes
        places = [build.add(where, build.mul(self.c.columns.right, i)) for i in range(columns)]
        for place in places if self.prefetch else ():
            builder.prefetch(self.source, build.add(place, _ahead(self.c, self.target)))
        along: list[Expr] = [builder.let("x", self._along(place, mask)) for place in places]
        along += [zero(self.dtype, lanes)] * (lanes - columns)
        for row, vector in zip(rows, transposed(builder, along), strict=False):
            builder.store(self.to, build.ramp(row, 1, lanes), vector)

    def _along(self, where: Expr, mask: Expr | None) -> Expr:
        """As many neighbours along the run as there are lanes, or as the mask says."""
        if self.c.word:
            return byte_words.loaded(self.source, where, 1, BYTES, self.lanes)
        return build.cast(build.load(self.source, where, self.lanes, mask), self.dtype)

    def _columns(self, where: Expr, lanes: int) -> Expr:
        """One element of each of some columns."""
        apart = self.c.columns.right
        if self.c.word:
            return byte_words.loaded(self.source, where, self.c.word, apart, lanes)
        if lanes == 1:
            return build.cast(build.load(self.source, where), self.dtype)
        index = build.add(where, build.mul(build.ramp(0, 1, lanes), apart))
        return build.cast(build.load(self.source, index), self.dtype)

    def _move(self, where: Expr, to: Expr, j: int, left: build.Number) -> None:
        """Copies one vector of one step: `left` of its columns, all if 0."""
        builder, lanes, dtype, apart = self.builder, self.lanes, self.dtype, self.c.columns.right
        at = build.add(where, apart * (j * lanes))
        place = build.add(to, j * lanes)
        if left == 0:
            builder.store(self.to, build.ramp(place, 1, lanes), self._columns(at, lanes))
            return
        if not isinstance(left, int):
            with builder.loop("n", 0, left) as n:
                value = self._columns(build.add(at, build.mul(n, apart)), 1)
                builder.store(self.to, build.add(place, n), value)
            with builder.loop("n", left, lanes) as n:
                builder.store(self.to, build.add(place, n), zero(dtype, 1))
            return
        for lane in range(left):
            value = self._columns(build.add(at, apart * lane), 1)
            builder.store(self.to, build.add(place, lane), value)
        for lane in range(left, lanes):
            builder.store(self.to, build.add(place, lane), zero(dtype, 1))
