"""Brings tiles of an operand to SHARED memory: every thread of the block reads some vectors and
writes them there.

A tile is `span` places along the operand's own side by `step` along the sum. What lies outside the
operand is zero. `fetch` reads into registers and `put` writes, so that a tile can be on its way
while the one before is used; `send` does both without registers, where the machine copies by
itself.
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
    """How a tile lies in SHARED memory."""

    @property
    def along_depth(self) -> bool:
        """Whether elements that lie side by side are neighbours along the sum, or along the
        operand's side.
        """

    def place(self, at: Expr, step: Expr) -> Expr:
        """Where the element of a place along the side and a step of the sum lies."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile: places along the side, steps of the sum, and whether the vectors that fill it lie
    along the sum.
    """

    span: int
    step: int
    lanes: int
    along_depth: bool

    @property
    def vectors(self) -> int:
        """Vectors that fill the tile."""
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
    """True when 16-byte pieces can be copied as they are, while the thread does something else."""
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
    """One vector of a thread: its place in the tile, where its row begins in the operand, and what
    keeps it inside.
    """

    place: Expr
    step: Expr
    base: Expr
    inside: list[Expr]
    # false for threads that have no such vector: where the tile has fewer than they are
    spare: Expr | None
    target: Expr  # where it goes in the tile
    # how far it is along each axis of the operand that has a border, but for the sum's part
    reach: list[Expr]


@dataclass(slots=True)
class SharedStaging:
    """One operand's way to SHARED memory, for one thread of a block."""

    elements: Elements
    side: MatrixOperand
    depths: Shape
    shape: TileShape
    dtype: DType  # of the elements in SHARED memory
    threads: int
    layout: SharedLayout
    asynchronous: bool  # the machine copies by itself
    pieces: list[_Piece] = field(default_factory=list)

    def begin(self, thread: Expr, first: Expr, batch: Counters) -> None:
        """What does not change from tile to tile; `first` is the block's first place along the
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
        """The thread's vectors of the tile that begins at a step of the sum; `beyond` when that may
        be past the end.
        """
        builder = self.elements.builder
        around = self._around(first)
        return [
            builder.let("held", self._read(piece, first, around, beyond)) for piece in self.pieces
        ]

    def put(self, values: Sequence[Expr], buffer: Buffer, start: Expr) -> None:
        """Writes fetched vectors to their places in the tile that begins at `start`."""
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

    # ---- by the copy engine ------------------------------------------------------------------

    def send(self, first: Expr, buffer: Buffer, start: Expr) -> None:
        """Begins to copy the tile that begins at a step of the sum; what lies beyond the operand
        becomes zeros.
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

    # ---- places in the operand ---------------------------------------------------------------

    def _where(self, piece: _Piece) -> AbstractContextManager[None]:
        return nullcontext() if piece.spare is None else self.elements.builder.when(piece.spare)

    def _around(self, first: Expr) -> list[Expr] | None:
        """The summed axes' counters at the tile's first step, where the whole tile shares all but
        the last.
        """
        if len(self.depths) > 1 and divisor(self.depths[-1]) % self.shape.step == 0:
            return apart(self.elements.builder, first, self.depths)
        return None

    def _conditions(
        self, piece: _Piece, first: Expr, counters: Counters, beyond: bool
    ) -> list[Expr]:
        """What must hold for a piece to be there."""
        end, found = volume(self.depths), list(piece.inside)
        if divisor(end) % self.shape.step:
            found.append(build.apply(Primitive.LT, build.add(first, piece.step), build.lift(end)))
        elif beyond:
            found.append(build.apply(Primitive.LT, first, build.lift(end)))
        for border, start in zip(self.side.borders, piece.reach, strict=True):
            at = self.elements.builder.let("at", offset(start, counters, border.depth))
            found += [
                build.apply(Primitive.LE, build.index(0), at),
                build.apply(Primitive.LT, at, build.lift(border.extent)),
            ]
        return found

    def _counters(self, piece: _Piece, first: Expr, around: list[Expr] | None) -> list[Expr]:
        """Where a piece lies along the axes of the sum."""
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
    """True where every condition is."""
    found, *others = conditions
    for condition in others:
        found = build.apply(Primitive.AND, found, condition)
    return found
