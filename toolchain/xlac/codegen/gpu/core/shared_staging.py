"""Stages tiles of an operand in SHARED memory: every thread of the block reads some vectors and
writes them there.

A tile is `span` positions along the operand's own side by `step` along the sum. Elements outside of
the operand are zero. `fetch` reads into registers and `put` writes, so that a tile can be loaded
while the one before is used; `send` does both by asynchronous copies, if the target has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand, apart, offset
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.core import instructions
from xlac.codegen.gpu.gemm.operand_load import read
from xlac.ir.dims import Shape, divisor, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


class SharedLayout(Protocol):
    """The layout of a tile in SHARED memory."""

    @property
    def along_depth(self) -> bool:
        """Whether contiguous elements are adjacent along the sum (else along the
        operand's side).
        """

    def place(self, at: Expr, step: Expr) -> Expr:
        """The offset of the element at a position along the side and a step of the sum."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile: positions along the side, steps of the sum, and whether its vectors are along the
    sum.
    """

    span: int
    step: int
    lanes: int
    along_depth: bool

    @property
    def vectors(self) -> int:
        """The number of vectors of the tile."""
        return self.span * self.step // self.lanes


def tile_shape(side: MatrixOperand, depths: Shape, span: int, step: int, most: int) -> TileShape:
    """A tile read in vectors as wide as the operand's strides allow, up to `most` elements."""
    deep = side.width(min(most, step), along_depth=True, depth=depths)
    wide = side.width(min(most, span), along_depth=False, depth=depths)
    beside = bool(side.strides) and side.strides[-1] == 1
    if deep > wide or (deep == wide and not beside):
        return TileShape(span, step, deep, along_depth=True)
    return TileShape(span, step, wide, along_depth=False)


def copies(
    side: MatrixOperand, shape: TileShape, dtype: DType, layout: SharedLayout, target: Target
) -> bool:
    """Whether 16-byte chunks can be copied asynchronously without conversion."""
    source = side.source.dtype
    alike = layout.along_depth is shape.along_depth
    whole = (
        shape.lanes * source.nbytes == instructions.CHUNK
        and source is dtype
        and instructions.COPY in target.instructions
    )
    return whole and alike and not side.source.computed


@dataclass(slots=True)
class _Piece:
    """One vector of a thread: its position in the tile, the offset of its row in the operand, and
    the conditions for it to be inside.
    """

    place: Expr
    step: Expr
    base: Expr
    inside: list[Expr]
    # false for threads without such a vector, if the tile has fewer vectors than threads; else None
    spare: Expr | None
    target: Expr  # offset in the tile
    # position along each axis of the operand that has a border, without the part of the summed axes
    reach: list[Expr]


@dataclass(slots=True)
class SharedStaging:
    """Stages one operand in SHARED memory, for one thread of a block."""

    elements: Elements
    side: MatrixOperand
    depths: Shape
    shape: TileShape
    dtype: DType  # of the elements in SHARED memory
    threads: int
    layout: SharedLayout
    asynchronous: bool  # whether copies are asynchronous
    pieces: list[_Piece] = field(default_factory=list)

    def begin(self, thread: Expr, first: Expr, batch: Counters) -> None:
        """Computes what is the same for all tiles; `first` is the block's first position along the
        side.
        """
        builder, shape = self.elements.builder, self.shape
        start = builder.let("base", self.side.start(batch))
        ragged = divisor(self.side.size) % shape.span != 0
        along = (shape.step if shape.along_depth else shape.span) // shape.lanes
        for number in range(-(-shape.vectors // self.threads)):
            at = build.add(thread, number * self.threads)
            inside, spare = [], None
            if (number + 1) * self.threads > shape.vectors:
                spare = builder.let(
                    "spare", build.apply(Primitive.LT, at, build.index(shape.vectors))
                )
                inside.append(spare)
            vector, other = build.mul(build.mod(at, along), shape.lanes), build.div(at, along)
            place, step = (other, vector) if shape.along_depth else (vector, other)
            place, step = builder.let("place", place), builder.let("step", step)
            position = builder.let("at", build.add(first, place))
            if ragged:
                inside.append(build.apply(Primitive.LT, position, build.lift(self.side.size)))
            inside = [builder.let("inside", all_of(inside))] if inside else []
            counters = apart(builder, position, self.side.extents)
            base = builder.let("from", self.side.moved(start, counters))
            reach = [
                builder.let(
                    "along", offset(offset(build.index(-b.low), batch, b.batch), counters, b.own)
                )
                for b in self.side.borders
            ]
            self.pieces.append(
                _Piece(
                    place,
                    step,
                    base,
                    inside,
                    spare,
                    builder.let("to", self.layout.place(place, step)),
                    reach,
                )
            )

    # ---- through registers -------------------------------------------------------------------

    def fetch(self, first: Expr, *, beyond: bool) -> list[Expr]:
        """Loads the thread's vectors of the tile that begins at step `first`; `beyond` if the tile
        may extend past the end.
        """
        builder = self.elements.builder
        around = self._around(first)
        return [
            builder.let("held", self._read(piece, first, around, beyond)) for piece in self.pieces
        ]

    def put(self, values: Sequence[Expr], buffer: Buffer, start: Expr) -> None:
        """Writes loaded vectors to the tile that begins at `start`."""
        for piece, value in zip(self.pieces, values, strict=True):
            with self._where(piece):
                self._write(piece, value, buffer, start)

    def _write(self, piece: _Piece, value: Expr, buffer: Buffer, start: Expr) -> None:
        builder, lanes = self.elements.builder, self.shape.lanes
        if lanes == 1 or self.layout.along_depth is self.shape.along_depth:
            builder.store(
                buffer, build.add(start, piece.target), value, align=lanes * self.dtype.nbytes
            )
            return
        for lane in range(lanes):
            deep, wide = (lane, 0) if self.shape.along_depth else (0, lane)
            where = self.layout.place(build.add(piece.place, wide), build.add(piece.step, deep))
            builder.store(buffer, build.add(start, where), Shuffle((value,), (lane,)))

    # ---- asynchronous copies -----------------------------------------------------------------

    def send(self, first: Expr, buffer: Buffer, start: Expr) -> None:
        """Starts asynchronous copies of the tile that begins at step `first`; elements outside of
        the operand become zeros.
        """
        builder, around = self.elements.builder, self._around(first)
        source = self.elements.parameter(self.side.source.value, Access.READ)
        for piece in self.pieces:
            counters = self._counters(piece, first, around)
            there = builder.let(
                "there", all_of(self._conditions(piece, first, counters, beyond=True))
            )
            where = builder.let("where", offset(piece.base, counters, self.side.depth))
            to = builder.let("to", build.add(start, piece.target))
            with self._where(piece):
                builder.emit(instructions.copy(buffer, to, source, where, there))

    # ---- positions in the operand ------------------------------------------------------------

    def _where(self, piece: _Piece) -> AbstractContextManager[None]:
        return nullcontext() if piece.spare is None else self.elements.builder.when(piece.spare)

    def _around(self, first: Expr) -> list[Expr] | None:
        """The counters of the summed axes at the tile's first step, if the whole tile shares all
        but the last.
        """
        if len(self.depths) > 1 and divisor(self.depths[-1]) % self.shape.step == 0:
            return apart(self.elements.builder, first, self.depths)
        return None

    def _conditions(
        self, piece: _Piece, first: Expr, counters: Counters, beyond: bool
    ) -> list[Expr]:
        """The conditions for a piece to be inside the operand."""
        end, conditions = volume(self.depths), list(piece.inside)
        if divisor(end) % self.shape.step:
            conditions.append(
                build.apply(Primitive.LT, build.add(first, piece.step), build.lift(end))
            )
        elif beyond:
            conditions.append(build.apply(Primitive.LT, first, build.lift(end)))
        for border, start in zip(self.side.borders, piece.reach, strict=True):
            at = self.elements.builder.let("at", offset(start, counters, border.depth))
            conditions += [
                build.apply(Primitive.LE, build.index(0), at),
                build.apply(Primitive.LT, at, build.lift(border.extent)),
            ]
        return conditions

    def _counters(self, piece: _Piece, first: Expr, around: list[Expr] | None) -> list[Expr]:
        """The position of a piece along the summed axes."""
        if around is None:
            return apart(self.elements.builder, build.add(first, piece.step), self.depths)
        return [*around[:-1], build.add(around[-1], piece.step)]

    def _read(self, piece: _Piece, first: Expr, around: list[Expr] | None, beyond: bool) -> Expr:
        counters = self._counters(piece, first, around)
        conditions = self._conditions(piece, first, counters, beyond)
        there = all_of(conditions) if conditions else None
        value = read(
            self.elements,
            self.side.source,
            offset(piece.base, counters, self.side.depth),
            self.shape.lanes,
            there,
        )
        return build.cast(value, self.dtype)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of conditions."""
    conjunction, *others = conditions
    for condition in others:
        conjunction = build.apply(Primitive.AND, conjunction, condition)
    return conjunction
