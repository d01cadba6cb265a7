"""The grid of a GPU kernel: loops over blocks and threads, shared memory, and reductions across
threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.schedules.schedule import Misfit, Path
from xlac.ir.dims import ceil_div, divisor, size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Buffer,
    Exchange,
    Expr,
    LoopKind,
    Shuffle,
    Space,
    Stmt,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
THREADS = 256  # of a block by default
RESIDENT = 1024  # threads that keep a multiprocessor busy


@dataclass(frozen=True, slots=True)
class GridThread:
    """The current thread of a kernel being written."""

    builder: Builder
    block: Expr
    thread: Expr
    threads: int  # of a block, a power of two
    warp: int  # threads that can exchange values
    allocations: list[Stmt]  # the block where shared buffers are declared

    def shared(self, hint: str, dtype: DType, size: int, align: int = 64) -> Buffer:
        """SHARED memory for the block, aligned to a multiple of `align` bytes."""
        buffer = Buffer(self.builder.fresh(hint), dtype, size, Space.SHARED, align=align)
        self.allocations.append(Allocate(buffer))
        return buffer

    def tree(self, primitive: Primitive, value: Expr, lanes: int) -> Expr:
        """Values of `lanes` adjacent threads (a power of two, up to a warp) combined; each gets the
        result.
        """
        value = self.builder.let("tree", value)
        distance = lanes // 2
        while distance:
            value = self.builder.let(
                "tree", build.apply(primitive, value, Exchange(value, distance))
            )
            distance //= 2
        return value

    def across(self, values: Sequence[tuple[Primitive, Expr]], lanes: int) -> list[Expr]:
        """Scalars of `lanes` adjacent threads, or of the whole block, each combined by its
        primitive.

        Every thread of the block must execute this.
        """
        builder = self.builder
        within = [self.tree(primitive, value, min(lanes, self.warp)) for primitive, value in values]
        if lanes <= self.warp or not values:
            return within
        assert lanes == self.threads, "a sum over several warps must be one over the whole block"
        warps = lanes // self.warp
        lane, warp = build.mod(self.thread, self.warp), build.div(self.thread, self.warp)
        buffers = [self.shared("warps", value.dtype, warps) for value in within]
        with builder.when(build.apply(P.EQ, lane, build.index(0))):
            for buffer, value in zip(buffers, within, strict=True):
                builder.store(buffer, warp, value)
        builder.barrier()
        totals = []
        for (primitive, _), buffer in zip(values, buffers, strict=True):
            part = build.load(buffer, build.mod(lane, warps))
            totals.append(self.tree(primitive, part, warps))
        return totals


@contextmanager
def grid(
    builder: Builder, target: Target, blocks: build.Number, threads: int
) -> Iterator[GridThread]:
    """The outer loops of every GPU kernel: `blocks` blocks of `threads` threads each."""
    with builder.loop("block", 0, blocks, kind=LoopKind.BLOCK) as block:
        allocations = builder.open_blocks[-1]
        with builder.loop("thread", 0, threads, kind=LoopKind.THREAD) as thread:
            yield GridThread(builder, block, thread, threads, target.warp, allocations)


@contextmanager
def every(
    builder: Builder, target: Target, loops: Sequence[Run], threads: int
) -> Iterator[dict[Run, Expr]]:
    """A thread for every position of some loops, adjacent ones along the last, in blocks of
    `threads`; yields the counter of each loop.
    """
    total = volume(tuple(run.extent for run in loops))
    with grid(builder, target, ceil_div(total, threads), threads) as here:
        number = builder.let("n", build.add(build.mul(here.block, threads), here.thread))
        if divisor(total) % threads == 0:
            yield unravelled(builder, number, loops)
            return
        with builder.when(build.apply(P.LT, number, build.lift(total))):
            yield unravelled(builder, bounded(builder, number, total - 1), loops)


def unravelled(builder: Builder, number: Expr, loops: Sequence[Run]) -> dict[Run, Expr]:
    """The counters of nested loops, from the linear number of an iteration."""
    counters: dict[Run, Expr] = {}
    for run in reversed(loops[1:]):
        counters[run] = builder.let("o", build.mod(number, run.extent))
        number = builder.let("o", build.div(number, run.extent))
    return counters | ({loops[0]: number} if loops else {})


def beside(values: Sequence[Expr]) -> Expr:
    """A vector made of scalars, whose number is a power of two."""
    while len(values) > 1:
        lanes = 2 * values[0].lanes
        values = [
            Shuffle((a, b), tuple(range(lanes)))
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]


def threads_over(target: Target, loops: Sequence[Run]) -> int:
    """The block size for one thread per position of some loops."""
    return threads_for(target, size_hint(volume(tuple(run.extent for run in loops))))


def threads_for(target: Target, work: int) -> int:
    """The block size for `work` threads in total: smaller if multiprocessors would stay idle
    otherwise.
    """
    threads = min(THREADS, power_of_two(target.block_threads or THREADS))
    while threads > 2 * target.warp and work < threads * max(1, target.processors):
        threads //= 2
    return threads


def power_of_two(value: int) -> int:
    """The largest power of two not above `value`, at least 1."""
    return 1 << max(0, value.bit_length() - 1)


def at_least(value: int) -> int:
    """The smallest power of two not below `value`."""
    return 1 << max(0, value - 1).bit_length()


def check_threads(threads: int, target: Target, least: int = 1, path: Path = ("threads",)) -> None:
    """Raises Misfit unless the block size is a power of two of at least `least` that the target
    supports.
    """
    if threads & (threads - 1) or threads < least:
        raise Misfit(path, f"it must be a power of two, at least {least}")
    if threads > target.block_threads:
        raise Misfit(path, f"{threads} threads, of {target.block_threads} that a block has at most")


def check_shared(nbytes: int, target: Target, path: Path) -> None:
    """Raises Misfit for blocks with more shared memory than the target has."""
    if nbytes > target.shared_bytes:
        room = f"{target.shared_bytes:,}"
        raise Misfit(path, f"it takes {nbytes:,} bytes of SHARED memory, of {room} that there are")
