"""GPU instructions that lowerings use by name, each with its semantics for one thread in plain
statements.

Tiles in SHARED memory are rows of 16-byte chunks. The chunks of a row are permuted (swizzled) by an
exclusive or with bits of the row's number, so that eight rows' chunks at one position, or eight
chunks of one row, are in different banks.
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
CHUNK = 16  # bytes of an asynchronous copy, and of a row of a tensor-core fragment
# rows, columns and bytes along the sum of one product of a warp
ROWS, COLUMNS, BYTES = 16, 8, 32
WARP_BARRIER = "warp.barrier"
COPY, COMMIT, WAIT = "copy.async.16", "copy.async.commit", "copy.async.wait"
MMA = {
    DType.F16: "matrix.multiply.m16n8k16.f16",
    DType.BF16: "matrix.multiply.m16n8k16.bf16",
    DType.F32: "matrix.multiply.m16n8k8.tf32",
    DType.I8: "matrix.multiply.m16n8k32.i8",
}
"""Matrix instructions by the operands' type. A product takes 32 bytes of each row."""
LANES = 32  # threads of a warp that multiply together: each holds a part of a product
GROUP = 4  # warps of a group that multiply together
GROUPED = {
    DType.F16: "matrix.multiply_group.m64n256k64.f16",
    DType.BF16: "matrix.multiply_group.m64n256k64.bf16",
}
"""Products of a warpgroup: 64 rows, up to 256 columns, and 128 bytes along the sum."""
FENCE = "memory.fence.async"
SETTLE = "matrix.multiply_group.wait"


def permitted(target: Target, precision: str) -> Target:
    """The target without instructions that round more than a model's precision allows."""
    if precision == "fast" or MMA[DType.F32] not in target.instructions:
        return target
    return replace(target, instructions=target.instructions - {MMA[DType.F32]})


def copy(to: Buffer, at: Expr, source: Buffer, where: Expr, there: Expr) -> Instruction:
    """Starts an asynchronous copy of 16 bytes to SHARED memory; zeros are written if `there` is
    false.
    """
    lanes = CHUNK // source.dtype.nbytes
    copied = build.load(source, where, lanes, build.splat(there, lanes), CHUNK)
    return Instruction(COPY, (to, at, source, where, there), (Store(to, at, copied, align=CHUNK),))


def commit() -> Instruction:
    """Groups the copies started since the last commit, to be waited for together."""
    return Instruction(COMMIT, (), ())


def wait(left: int) -> Instruction:
    """Waits until all but the last `left` groups of copies are complete."""
    return Instruction(WAIT, (Const(left, DType.I32),), ())


def warp_barrier() -> Instruction:
    """A barrier for a warp; on targets without one, for the block."""
    return Instruction(WARP_BARRIER, (), (Barrier(),))


@dataclass(frozen=True, slots=True)
class Swizzled:
    """A swizzled tile layout: a row for each position along the operand's own side, or for each
    step of the sum.
    """

    dtype: DType
    width: int  # elements of a row, a power of two and at least two chunks
    along_depth: bool  # whether rows are contiguous along the sum

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.dtype.nbytes

    @property
    def bits(self) -> tuple[int, int]:
        """The shift and the mask that are applied to a row's number to permute its chunks."""
        chunks = min(8, self.width // self.chunk)
        return 4 - chunks.bit_length(), chunks - 1

    def place(self, at: Expr, step: Expr) -> Expr:
        """The offset of the element at a position along the side and a step of the sum."""
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
    """A tile layout for warpgroup products if the operand is contiguous along its own side: panels
    with rows of 128 bytes, one row for each step of the sum.
    """

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
        """The offset of the element at a position along the side and a step of the sum."""
        panel, column = build.div(at, self.width), build.mod(at, self.width)
        chunk = build.apply(P.XOR, build.div(column, self.chunk), build.mod(step, 8))
        row = build.mul(build.add(build.mul(panel, self.width), step), self.width)
        return build.add(
            build.add(row, build.mul(chunk, self.chunk)), build.mod(column, self.chunk)
        )


@dataclass(frozen=True, slots=True)
class FragmentOperand:
    """A warp's part of a tile: its first position along the side, in the memory of a tile that
    begins at `start`.
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

    A thread holds four results of each tile: in row `lane / 4` and the row 8 below it, columns
    `lane % 4 * 2` and the next.
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
    """Starts an asynchronous addition of the products of a warp's 16 rows over a tile's 128 bytes
    of the sum, with the semantics of `multiply` for each step.

    The four warps of a warpgroup execute it together: their rows are consecutive, and the first row
    of a group is a multiple of 64. Neither sums nor tiles may be accessed before `settle`.
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
    """Waits until all but the last `left` products that the group started are complete."""
    return Instruction(SETTLE, (Const(left, DType.I32),), ())


def fence() -> Instruction:
    """Makes this thread's writes to SHARED memory visible to warpgroup products after the next
    barrier.
    """
    return Instruction(FENCE, (), ())


def _along(operand: FragmentOperand, place: Expr, step: Expr, dtype: DType) -> Expr:
    """A chunk's steps of the sum at one position along the side, in the accumulator type."""
    layout, at = operand.layout, build.add(operand.first, place)
    if layout.along_depth:
        where = build.add(layout.place(at, step), operand.start)
        value = build.load(operand.buffer, where, layout.chunk, align=CHUNK)
    else:
        where = layout.place(at, build.ramp(step, 1, layout.chunk))
        value = build.load(operand.buffer, build.add(where, operand.start))
    return build.cast(rounded(value) if layout.dtype is DType.F32 else value, dtype)


def rounded(value: Expr) -> Expr:
    """f32 rounded to the fraction of tf32: to nearest, ties away from zero."""
    bits = build.apply(P.BITCAST, value, dtype=DType.U32)
    up = build.apply(P.ADD, bits, build.splat(Const(1 << 12, DType.U32), value.lanes))
    kept = build.apply(P.AND, up, build.splat(Const(0xFFFFE000, DType.U32), value.lanes))
    return build.apply(P.BITCAST, kept, dtype=DType.F32)
