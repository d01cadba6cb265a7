"""Hopper's tensor memory accelerator (TMA), and the mbarriers in SHARED memory that its copies
signal, as instructions with semantics.

A barrier's semantics is a counter of bytes that have arrived, or threads that have finished. Its
phases end at multiples of a constant, so a waiter states how many phases must be over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Await, Buffer, Const, Expr, Instruction, Store, TensorMap
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
CHUNK = 16  # bytes of a box's row; chunks of eight rows are swizzled
BEGIN, READY = "barrier.begin", "barrier.ready"
WAIT, EXPECT, DONE = "barrier.wait", "barrier.expect", "barrier.done"
BRING = {rank: f"copy.box.{rank}" for rank in range(2, 6)}
"""Copy instructions by the rank of the array."""
MORE, FEWER = "registers.more", "registers.fewer"
NAMES = frozenset({BEGIN, READY, WAIT, EXPECT, DONE, MORE, FEWER, *BRING.values()})


@dataclass(frozen=True, slots=True)
class Barriers:
    """Barriers, one for each tile of a ring buffer. A phase ends when `each` bytes have arrived, or
    threads have finished.

    The hardware counts `arrivals`: of threads that announce the expected bytes, or of warps that
    have finished.
    """

    buffer: Buffer  # of I64
    each: int
    arrivals: int

    def begin(self, slot: int) -> Instruction:
        """Initializes a barrier. One thread of the block executes this, before `ready`."""
        at = build.index(slot)
        return Instruction(
            BEGIN,
            (self.buffer, at, Const(self.arrivals, DType.I32)),
            (Store(self.buffer, at, build.index(0)),),
        )

    def wait(self, slot: Expr, phases: Expr) -> Instruction:
        """Waits until `phases` phases are over, of which all but the last are known to be."""
        wanted = build.apply(P.LE, build.mul(phases, self.each), build.load(self.buffer, slot))
        return Instruction(WAIT, (self.buffer, slot, phases), (Await(wanted),))

    def expect(self, slot: Expr) -> Instruction:
        """Announces the bytes of a phase; the copies follow."""
        return Instruction(EXPECT, (self.buffer, slot, Const(self.each, DType.I32)), ())

    def done(self, slot: Expr) -> Instruction:
        """Signals that a warp has finished with a tile."""
        return Instruction(
            DONE, (self.buffer, slot), (Store(self.buffer, slot, build.index(1), atomic=P.ADD),)
        )


def ready() -> Instruction:
    """Makes initialized barriers visible to the TMA, and to all threads after the next barrier of
    the block.
    """
    return Instruction(READY, (), ())


def bring(
    given: TensorMap, to: Buffer, at: Expr, barriers: Barriers, slot: Expr, place: Sequence[Expr]
) -> Instruction:
    """Starts a copy of the box at a position of the array to SHARED memory, which signals a
    barrier.
    """
    builder, lanes = Builder(), CHUNK // to.dtype.nbytes
    rows, width = prod(given.box[:-1]), given.box[-1]
    with (
        builder.loop("box_row", 0, rows) as row,
        builder.loop("box_chunk", 0, width // lanes) as chunk,
    ):
        inside, there = row, []
        where: Expr = given.offset
        counters = [build.mul(chunk, lanes)]
        for length in reversed(given.box[:-1]):
            counters.append(build.mod(inside, length))
            inside = build.div(inside, length)
        for first, counter, extent, stride in zip(
            place, reversed(counters), given.extents, (*given.strides, build.index(1)), strict=True
        ):
            position = build.add(first, counter)
            there.append(build.apply(P.LT, position, extent))
            where = build.add(where, build.mul(position, stride))
        whole = there[0]
        for one in there[1:]:
            whole = build.apply(P.AND, whole, one)
        value = build.load(given.buffer, where, lanes, build.splat(whole, lanes), CHUNK)
        exchanged = build.apply(P.XOR, chunk, build.mod(row, width // lanes))
        to_place = build.add(at, build.add(build.mul(row, width), build.mul(exchanged, lanes)))
        builder.store(to, to_place, value, align=CHUNK)
    builder.store(barriers.buffer, slot, build.index(rows * width * to.dtype.nbytes), atomic=P.ADD)
    return Instruction(
        BRING[len(place)], (given, to, at, barriers.buffer, slot, *reversed(place)), builder.body()
    )


def registers(count: int, *, more: bool) -> Instruction:
    """Changes the number of registers per thread of a warpgroup (setmaxnreg): more or fewer than
    before.
    """
    return Instruction(MORE if more else FEWER, (Const(count, DType.I32),), ())
