"""Products of bytes by a processor's matrix unit, such as x86's AMX: instructions that multiply
tiles of up to 16 rows of 64 bytes, and add 16 columns of 32-bit sums a row.

One instruction of kernel IR is the whole sum of a block of results: a backend keeps the sums in
tile registers meanwhile. Elsewhere its meaning, loops of `dot4`, is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, Instruction, Var
from xlac_sdk.kernel_ir.primitives import Primitive

MULTIPLY = {DType.U32: "matrix.multiply.m16n16k64.u8", DType.I32: "matrix.multiply.m16n16k64.i8"}
"""The instructions, by the type of the words whose bytes are the left operand's."""
ROWS, WORDS, BYTES = 16, 16, 4  # the most rows of a tile, its most words a row, bytes of a word
REGISTERS, SUMS = 8, 4  # tiles that a unit holds, and those of them that have sums


@dataclass(frozen=True, slots=True)
class SumLoop:
    """A loop of a sum: its trip count, and what a turn adds to the place in each operand, in bytes
    of the left one and in words of the right one.
    """

    count: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class MatrixBlock:
    """A block of sums: `heights` rows of the left operand, whose rows are `row` bytes apart and
    whose groups begin `groups` bytes from its place, by `vectors` times `lanes` columns.

    A step takes `words` words of each row, and as many rows of the packed right operand, which has
    `pitch` words a row. `loops` are the steps' loops, from the outermost. If `share` is not 0, each
    step prefetches that part of the bytes which it reads of the right operand.
    """

    heights: tuple[int, ...]
    groups: tuple[int, ...]
    row: int
    vectors: int
    lanes: int
    words: int
    pitch: int
    share: int
    loops: tuple[SumLoop, ...]

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.vectors * self.lanes

    def numbers(self) -> tuple[int, ...]:
        """The block as operands of an instruction; `read` is the inverse."""
        loops = [n for one in self.loops for n in (one.count, one.left, one.right)]
        step = (self.words, self.pitch, self.share)
        head = (len(self.heights), self.row, self.vectors, self.lanes, *step)
        return (*head, *self.heights, *self.groups, *loops)

    @staticmethod
    def read(numbers: Sequence[int]) -> MatrixBlock:
        """The block that `numbers` gave."""
        many, row, vectors, lanes, words, pitch, share = numbers[:7]
        heights, groups = (tuple(numbers[7 + k * many : 7 + (k + 1) * many]) for k in range(2))
        rest = numbers[7 + 2 * many :]
        loops = tuple(SumLoop(*rest[k : k + 3]) for k in range(0, len(rest), 3))
        return MatrixBlock(heights, groups, row, vectors, lanes, words, pitch, share, loops)


@dataclass(frozen=True, slots=True)
class TileProduct:
    """The operands of an instruction: where it stores its sums, row after row, where its operands
    begin, and what of the right one it prefetches, from `next_at` on.
    """

    sums: Buffer
    left: Buffer
    left_at: Expr
    right: Buffer
    right_at: Expr
    next_at: Expr
    block: MatrixBlock

    @staticmethod
    def of(stmt: Instruction) -> TileProduct:
        """The operands of one of the instructions of `MULTIPLY`."""
        sums, left, left_at, right, right_at, next_at, *numbers = stmt.operands
        values = [int(cast(Const, number).value) for number in numbers]
        return TileProduct(
            cast(Buffer, sums),
            cast(Buffer, left),
            cast(Expr, left_at),
            cast(Buffer, right),
            cast(Expr, right_at),
            cast(Expr, next_at),
            MatrixBlock.read(values),
        )

    def write(self, builder: Builder, word: DType) -> None:
        """Writes the instruction; `word` is the type of words of the left operand."""
        given = (self.sums, self.left, self.left_at, self.right, self.right_at, self.next_at)
        numbers = tuple(Const(number, DType.I64) for number in self.block.numbers())
        with builder.block() as meaning:
            self._meaning(builder, word)
        builder.emit(Instruction(MULTIPLY[word], (*given, *numbers), tuple(meaning)))

    def _meaning(self, builder: Builder, word: DType) -> None:
        """Loops over groups of rows, their rows, and vectors: a sum of `dot4` for each."""
        block, first = self.block, 0
        for height, group in zip(block.heights, block.groups, strict=True):
            with builder.loop("i", 0, height) as i, builder.loop("v", 0, block.vectors) as v:
                total = builder.variable("c", Const(0, DType.I32, block.lanes))
                left = build.add(self.left_at, build.add(build.mul(i, block.row), group))
                right = build.add(self.right_at, build.mul(v, block.lanes))
                self._sum(builder, word, total, 0, left, right)
                row = build.add(i, first)
                at = build.add(build.mul(row, block.width), build.mul(v, block.lanes))
                builder.store(self.sums, build.ramp(at, 1, block.lanes), total)
            first += height

    def _sum(
        self, builder: Builder, word: DType, total: Var, depth: int, left: Expr, right: Expr
    ) -> None:
        """Adds the steps of the loops from `depth` on to a vector of sums."""
        block = self.block
        if depth < len(block.loops):
            loop = block.loops[depth]
            with builder.loop("k", 0, loop.count) as k:
                a = build.add(left, build.mul(k, loop.left))
                b = build.add(right, build.mul(k, loop.right))
                self._sum(builder, word, total, depth + 1, a, b)
            return
        with builder.loop("w", 0, block.words) as w:
            four = build.load(self.left, build.add(left, build.mul(w, BYTES)), BYTES)
            x = build.splat(build.bits(four, word), block.lanes)
            at = build.add(right, build.mul(w, block.pitch))
            y = build.load(self.right, at, block.lanes)
            builder.assign(total, build.apply(Primitive.DOT4, x, y, total))
