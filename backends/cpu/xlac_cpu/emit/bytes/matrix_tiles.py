"""Products of blocks of bytes by AMX: sums stay in tile registers.

Registers 0 to 3 have sums, one for each group of rows and vector of columns; then come the rows of
each group, and the rest take the columns in turn.
"""

from __future__ import annotations

from xlac_cpu.emit.expressions import LlvmExpressions
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Instruction
from xlac_sdk.kernel_ir.matrix_tiles import (
    BYTES,
    MULTIPLY,
    REGISTERS,
    SUMS,
    MatrixBlock,
    TileProduct,
)

LINE = 64  # bytes of a line of a cache
_PALETTE = 1  # of AMX: eight registers of 16 rows of 64 bytes
PRODUCTS = {MULTIPLY[DType.U32]: "tdpbusd", MULTIPLY[DType.I32]: "tdpbssd"}
"""The products that AMX has, by the names of their instructions in kernel IR."""


def write(e: LlvmExpressions, stmt: Instruction) -> None:
    """Writes a product. The registers are configured when the function begins, since that takes as
    long as several products: all of a function have blocks of one shape.
    """
    given = TileProduct.of(stmt)
    _configure(e.w, configuration(given.block))
    left, right = e.pointer(given.left, given.left_at), e.pointer(given.right, given.right_at)
    following, sums = e.pointer(given.right, given.next_at), e.buffers[given.sums][0]
    _Tiles(e.w, stmt.name, given.block).write(left, right, following, sums)


def configuration(block: MatrixBlock) -> bytes:
    """The operand of LDTILECFG: the rows of each register, and the bytes of each row."""
    many = SUMS // len(block.heights)
    sums = [(height, block.lanes * BYTES) for height in block.heights for _ in range(many)]
    left = [(height, block.words * BYTES) for height in block.heights]
    right = [(block.words, block.lanes * BYTES)] * (REGISTERS - len(sums) - len(left))
    text = bytearray(64)
    text[0] = _PALETTE
    for register, (rows, width) in enumerate((*sums, *left, *right)):
        text[16 + 2 * register] = width
        text[48 + register] = rows
    return bytes(text)


def _configure(w: LlvmWriter, text: bytes) -> None:
    if w.tiles is None:
        w.tiles, cell = text, w.stack("[64 x i8]", LINE)
        values = ", ".join(f"i8 {value}" for value in text)
        w.entry.append(f"  store <64 x i8> <{values}>, ptr {cell}, align {LINE}")
        w.entry.append(f"  call void @{w.declare('void', 'llvm.x86.ldtilecfg', 'ptr')}(ptr {cell})")
        # in their first state, registers cost no time elsewhere
        w.exit.append(f"  call void @{w.declare('void', 'llvm.x86.tilerelease')}()")
    assert w.tiles == text, "the products of a kernel have blocks of one shape"


class _Tiles:
    """Writes the instructions of a product."""

    def __init__(self, w: LlvmWriter, name: str, block: MatrixBlock) -> None:
        self.w, self.block, self.product = w, block, PRODUCTS[name]
        self.groups = range(len(block.heights))
        self.across = range(block.vectors)
        self.rights = SUMS + len(block.heights)

    def write(self, left: str, right: str, following: str, sums: str) -> None:
        """Zeros the sums, adds all steps, and stores the sums, between these addresses; `following`
        is what steps prefetch.
        """
        w, block = self.w, self.block
        zero = w.declare("void", "llvm.x86.tilezero", "i8 immarg")
        for g in self.groups:
            for v in self.across:
                w.do(f"call void @{zero}(i8 {self._sum(g, v)})")
        self._steps(0, left, right, following)
        first = 0
        for g in self.groups:
            for v in self.across:
                at = first * block.width + v * block.lanes
                self._move("tilestored64", self._sum(g, v), sums, at * BYTES, block.width * BYTES)
            first += block.heights[g]

    def _sum(self, group: int, vector: int) -> int:
        return group * (SUMS // len(self.block.heights)) + vector

    def _steps(self, depth: int, left: str, right: str, following: str) -> None:
        if depth == len(self.block.loops):
            self._step(left, right, following)
            return
        loop, share = self.block.loops[depth], self.block.share
        if loop.count == 1:
            self._steps(depth + 1, left, right, following)
            return
        with self.w.loop("0", str(loop.count), 1, certain=True) as k:
            a = self._moved(left, k, loop.left)
            b = self._moved(right, k, loop.right * BYTES)
            after = self._moved(following, k, loop.right * BYTES // share) if share else following
            self._steps(depth + 1, a, b, after)

    def _step(self, left: str, right: str, following: str) -> None:
        w, block = self.w, self.block
        if block.share:
            self._prefetch(following, block.words * block.pitch * BYTES // block.share)
        for g in self.groups:
            self._move("tileloadd64", SUMS + g, left, block.groups[g], block.row)
        spare = REGISTERS - self.rights
        name = w.declare("void", f"llvm.x86.{self.product}", *["i8 immarg"] * 3)
        for v in self.across:
            register = self.rights + v % spare
            at = v * block.lanes * BYTES
            self._move("tileloadd64", register, right, at, block.pitch * BYTES)
            for g in self.groups:
                w.do(f"call void @{name}(i8 {self._sum(g, v)}, i8 {SUMS + g}, i8 {register})")

    def _prefetch(self, base: str, nbytes: int) -> None:
        """Prefetches the lines of `nbytes` bytes into the second-level cache."""
        w = self.w
        name = w.declare("void", "llvm.prefetch.p0", "ptr", "i32", "i32", "i32")
        for at in range(0, nbytes, LINE):
            pointer = w.op(f"getelementptr i8, ptr {base}, i64 {at}")
            w.do(f"call void @{name}(ptr {pointer}, i32 0, i32 2, i32 1)")

    def _move(self, name: str, register: int, base: str, offset: int, row: int) -> None:
        """Loads or stores a register, of rows that are `row` bytes apart."""
        w = self.w
        called = w.declare("void", f"llvm.x86.{name}", "i8 immarg", "ptr", "i64")
        at = w.op(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base
        w.do(f"call void @{called}(i8 {register}, ptr {at}, i64 {row})")

    def _moved(self, base: str, k: str, step: int) -> str:
        offset = self.w.op(f"mul i64 {k}, {step}")
        return self.w.op(f"getelementptr i8, ptr {base}, i64 {offset}")
