"""Instructions of GPUs that lowerings ask for by name, each with its meaning for one thread in
plain statements.

Tiles in SHARED memory are rows of 16-byte chunks. A row's chunks are exchanged by an exclusive or
with bits of the row's number, so that eight rows' chunks of one place, or eight chunks of one row,
lie in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Barrier, Buffer, Const, Expr, Instruction, Store
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
CHUNK = 16  # bytes that are copied, and read for the tensor cores, at once
# what one product of a warp covers: of rows, of columns, and of each row's sum
ROWS, COLUMNS, BYTES = 16, 8, 32
WARP_BARRIER = "warp.barrier"
COPY, COMMIT, WAIT = "copy.async.16", "copy.async.commit", "copy.async.wait"
MMA = {
    DType.F16: "matrix.multiply.m16n8k16.f16", DType.BF16: "matrix.multiply.m16n8k16.bf16", DType.F32: "matrix.multiply.m16n8k8.tf32",
    DType.I8: "matrix.multiply.m16n8k32.i8",
}  # fmt: skip
"""By the operands' type. A product takes 32 bytes of each row."""
LANES = 32  # threads of a warp, where these multiply: each holds its part of a product
GROUP = 4  # warps that multiply together where they do
GROUPED = {
    DType.F16: "matrix.multiply_group.m64n256k64.f16",
    DType.BF16: "matrix.multiply_group.m64n256k64.bf16",
}
"""Products of four warps: 64 rows, 256 columns, and 128 bytes of each row's sum."""
FENCE = "memory.fence.async"
SETTLE = "matrix.multiply_group.wait"


def permitted(target: Target, precision: str) -> Target:
    """The target without instructions that round more than a model's precision lets them."""
    if precision == "fast" or MMA[DType.F32] not in target.instructions:
        return target
    return replace(target, instructions=target.instructions - {MMA[DType.F32]})


def copy(to: Buffer, at: Expr, source: Buffer, where: Expr, there: Expr) -> Instruction:
    """Begins to copy 16 bytes to SHARED memory, or to fill them with zeros where there is nothing
    to copy.
    """
    lanes = CHUNK // source.dtype.nbytes
    copied = build.load(source, where, lanes, build.splat(there, lanes), CHUNK)
    return Instruction(COPY, (to, at, source, where, there), (Store(to, at, copied, align=CHUNK),))


def commit() -> Instruction:
    """What was begun since the last one is waited for together."""
    return Instruction(COMMIT, (), ())


def wait(left: int) -> Instruction:
    """Goes on when all but the last `left` commits have come."""
    return Instruction(WAIT, (Const(left, DType.I32),), ())


def warp_barrier() -> Instruction:
    """Every thread of a warp arrives before any goes on; where there is none for warps, every
    thread of the block.
    """
    return Instruction(WARP_BARRIER, (), (Barrier(),))


@dataclass(frozen=True, slots=True)
class Swizzled:
    """A tile's layout: a row for each place along the operand's side, or for each step of the sum."""

    dtype: DType
    width: int  # elements of a row, a power of two and at least two chunks
    along_depth: bool  # whether neighbours in a row are neighbours along the sum

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.dtype.nbytes

    @property
    def bits(self) -> tuple[int, int]:
        """How far a row's number is shifted, and the mask, that give what its chunks are exchanged
        by.
        """
        chunks = min(8, self.width // self.chunk)
        return 4 - chunks.bit_length(), chunks - 1

    def place(self, at: Expr, step: Expr) -> Expr:
        """Where the element of a place along the side and a step of the sum lies."""
        row, column = (at, step) if self.along_depth else (step, at)
        shift, mask = self.bits
        number, inside = build.div(column, self.chunk), build.mod(column, self.chunk)
        turned = build.apply(P.AND, build.div(row, 1 << shift), build.index(mask))
        chunk = build.apply(P.XOR, number, turned)
        return build.add(
            build.add(build.mul(row, self.width), build.mul(chunk, self.chunk)), inside
        )


@dataclass(frozen=True, slots=True)
class SwizzledPanels:
    """A tile's layout for products of four warps where neighbours lie along the operand's side:
    panels of 128 bytes, each a row for every step of the sum, 128 bytes' worth of steps."""

    dtype: DType
    along_depth = False

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.dtype.nbytes

    @property
    def width(self) -> int:
        """Elements of a row."""
        return 8 * self.chunk

    def place(self, at: Expr, step: Expr) -> Expr:
        """Where the element of a place along the side and a step of the sum lies."""
        panel, column = build.div(at, self.width), build.mod(at, self.width)
        chunk = build.apply(P.XOR, build.div(column, self.chunk), build.mod(step, 8))
        row = build.mul(build.add(build.mul(panel, self.width), step), self.width)
        return build.add(
            build.add(row, build.mul(chunk, self.chunk)), build.mod(column, self.chunk)
        )


@dataclass(frozen=True, slots=True)
class FragmentOperand:
    """A warp's part of a tile: its first place along the side, in the memory of a tile that begins
    at `start`.
    """

    buffer: Buffer
    start: Expr
    first: Expr
    layout: Swizzled | SwizzledPanels


def multiply(
    sums: Buffer,
    left: FragmentOperand,
    right: FragmentOperand,
    step: Expr,
    lane: Expr,
    tiles: tuple[int, int],
) -> Instruction:
    """Adds a warp's products over 32 bytes of the sum from `step` on: `tiles` (down, across) of 16
    rows by 8 columns.

    A thread holds four results of each tile: in row `lane / 4` and the eighth after, columns `lane
    % 4 * 2` and the next.
    """
    dtype = left.layout.dtype
    sizes = [Const(n, DType.I32) for n in (*tiles, left.layout.width, right.layout.width)]
    turned = [Const(not layout.along_depth, DType.BOOL) for layout in (left.layout, right.layout)]
    operands = (
        sums,
        left.buffer,
        left.start,
        left.first,
        right.buffer,
        right.start,
        right.first,
        step,
        *sizes,
        *turned,
    )
    builder = Builder()
    with (
        builder.loop("mma_i", 0, tiles[0]) as i,
        builder.loop("mma_j", 0, tiles[1]) as j,
        builder.loop("mma_e", 0, 4) as e,
    ):
        row = build.add(
            build.mul(i, 16), build.add(build.div(lane, 4), build.mul(build.div(e, 2), 8))
        )
        column = build.add(
            build.mul(j, 8), build.add(build.mul(build.mod(lane, 4), 2), build.mod(e, 2))
        )
        at = builder.let("mma_at", build.add(build.mul(build.add(build.mul(i, tiles[1]), j), 4), e))
        total = build.load(sums, at)
        for part in range(2):
            begin = build.add(step, part * (CHUNK // dtype.nbytes))
            values = [_along(o, p, begin, sums.dtype) for o, p in ((left, row), (right, column))]
            total = build.apply(P.ADD, total, build.fold(P.ADD, build.apply(P.MUL, *values)))
        builder.store(sums, at, total)
    return Instruction(MMA[dtype], operands, builder.body())


def multiply_grouped(
    sums: Buffer, left: FragmentOperand, right: FragmentOperand, lane: Expr, columns: int
) -> Instruction:
    """Begins to add the products of a warp's 16 rows over a tile's 128 bytes of the sum, as
    `multiply` would step by step.

    The four warps of a group do so together: their rows follow each other, and the first of a group
    is a multiple of 64. Neither sums nor tiles may be touched before `settle`.
    """
    dtype, steps = left.layout.dtype, range(0, left.layout.width, BYTES // left.layout.dtype.nbytes)
    turned = [Const(not operand.layout.along_depth, DType.BOOL) for operand in (left, right)]
    parts = (
        multiply(sums, left, right, build.index(step), lane, (1, columns // COLUMNS))
        for step in steps
    )
    meaning = tuple(stmt for part in parts for stmt in part.meaning)
    return Instruction(
        GROUPED[dtype],
        (sums, left.buffer, left.start, left.first, right.buffer, right.start, *turned),
        meaning,
    )


def settle(left: int) -> Instruction:
    """Goes on when all but the last `left` products that the group began have been added."""
    return Instruction(SETTLE, (Const(left, DType.I32),), ())


def fence() -> Instruction:
    """What this thread has copied to SHARED memory is there for products of groups, once a barrier
    has passed.
    """
    return Instruction(FENCE, (), ())


def _along(operand: FragmentOperand, place: Expr, step: Expr, dtype: DType) -> Expr:
    """A chunk's worth of steps at one place along the side, in the type that products are summed
    in.
    """
    layout, at = operand.layout, build.add(operand.first, place)
    if layout.along_depth:
        where = build.add(layout.place(at, step), operand.start)
        value = build.load(operand.buffer, where, layout.chunk, align=CHUNK)
    else:
        where = layout.place(at, build.ramp(step, 1, layout.chunk))
        value = build.load(operand.buffer, build.add(where, operand.start))
    return build.cast(rounded(value) if layout.dtype is DType.F32 else value, dtype)


def rounded(value: Expr) -> Expr:
    """f32 with the fraction of tf32, the nearest; halves away from zero."""
    bits = build.apply(P.BITCAST, value, dtype=DType.U32)
    up = build.apply(P.ADD, bits, build.splat(Const(1 << 12, DType.U32), value.lanes))
    kept = build.apply(P.AND, up, build.splat(Const(0xFFFFE000, DType.U32), value.lanes))
    return build.apply(P.BITCAST, kept, dtype=DType.F32)
