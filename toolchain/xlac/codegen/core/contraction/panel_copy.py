"""Copies one panel of a contraction's right operand into the order in which it is read."""

from __future__ import annotations

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction import byte_words
from xlac.codegen.core.contraction.byte_words import BYTES
from xlac.codegen.core.contraction.contraction import Contraction, zero
from xlac.codegen.core.contraction.packing import TURNED, transposed
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.elements import Elements
from xlac.ir.dims import Dim
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr


def can_transpose(c: Contraction, tile: RegisterTile) -> bool:
    """Whether squares of vectors can be read along the summed axis and transposed in registers."""
    near = c.inner[-1].right == BYTES if c.word else c.inner[-1].right == 1
    apart = not c.word or c.word == 1
    return near and apart and c.columns.right != 1 and 1 < tile.lanes <= TURNED


class PanelCopy:
    """Writes the copy of a panel, as elements of `dtype`, with the builder of `elements`.
    `transposes` reads along the sum and transposes squares of vectors in registers.
    """

    def __init__(
        self, elements: Elements, c: Contraction, tile: RegisterTile, dtype: DType, transposes: bool
    ) -> None:
        self.builder, self.c = elements.builder, c
        self.dtype, self.lanes, self.transposes = dtype, tile.lanes, transposes
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
        self._steps(0, first, place, vectors, partial)

    def _steps(
        self, level: int, where: Expr, to: Expr, vectors: int, partial: build.Number
    ) -> None:
        """The loops over the summed axes from a level on."""
        builder, c, lanes = self.builder, self.c, self.lanes
        if level == len(c.inner):
            for j in range(vectors):
                self._move(where, to, j, partial if j == vectors - 1 else 0)
            return
        axis, stride = c.inner[level], row_major([a.extent for a in c.inner])[level]
        turned: Dim = 0
        if self.transposes and level == len(c.inner) - 1 and isinstance(partial, int):
            turned = axis.extent // lanes * lanes
            with builder.loop("k", 0, turned, lanes) as k:
                to_here = build.add(to, build.mul(k, vectors * lanes))
                here = build.add(where, build.mul(k, axis.right))
                self._transpose(here, to_here, vectors, partial)
        with builder.loop("k", turned, axis.extent) as k:
            self._steps(
                level + 1,
                build.add(where, build.mul(k, axis.right)),
                build.add(to, build.mul(k, stride * (vectors * lanes))),
                vectors,
                partial,
            )

    def _transpose(self, where: Expr, to: Expr, vectors: int, partial: int) -> None:
        """Packs as many steps of the sum as a vector has lanes: columns are read along the sum and
        transposed in registers, a square at a time, in a loop (a square alone is a hundred
        instructions).
        """
        builder, side = self.builder, self.lanes
        whole = vectors - bool(partial)
        apart = build.mul(self.c.columns.right, side)
        if whole > 1:
            with builder.loop("j", 0, whole) as j:
                here, there = build.mul(j, apart), build.mul(j, side)
                self._square(build.add(where, here), build.add(to, there), vectors, side)
        elif whole:
            self._square(where, to, vectors, side)
        if partial:
            here = build.add(where, build.mul(apart, whole))
            self._square(here, build.add(to, whole * side), vectors, partial)

    def _square(self, where: Expr, to: Expr, vectors: int, columns: int) -> None:
        """Packs one vector of each of these steps: `columns` of its lanes, and zeros beyond."""
        builder, lanes, apart = self.builder, self.lanes, self.c.columns.right
        along = [
            builder.let("x", self._along(build.add(where, build.mul(apart, i))))
            if i < columns
            else zero(self.dtype, lanes)
            for i in range(lanes)
        ]
        for step, row in enumerate(transposed(builder, along)):
            place = build.add(to, step * vectors * lanes)
            builder.store(self.to, build.ramp(place, 1, lanes), row)

    def _along(self, where: Expr) -> Expr:
        """As many neighbours along the sum as there are lanes."""
        if self.c.word:
            return byte_words.loaded(self.source, where, 1, BYTES, self.lanes)
        return build.cast(build.load(self.source, where, self.lanes), self.dtype)

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
