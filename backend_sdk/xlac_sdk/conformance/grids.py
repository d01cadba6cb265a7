"""Cases for GPUs: loops over blocks and threads, shared memory, barriers, empty launches;
`grid_memory.py` has those on communication through memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlac_sdk.conformance import grid_memory
from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.grid_parts import BLOCKS, GridBody, ends, grid_case
from xlac_sdk.conformance.programs import of_kernel, twice, values
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64


def cases(target: Target) -> Iterator[ConformanceCase]:
    """The cases of a target that is a GPU."""
    if target.device != "gpu":
        return
    threads = min(4 * target.warp, target.block_threads or target.warp)
    for make in (plain, reversed_, several, tree, divergent, many, without_blocks):
        yield make(threads)
    yield from grid_memory.cases(target, threads)


def plain(threads: int) -> ConformanceCase:
    """An element for each thread of each block."""
    x, y = ends(threads)
    b = GridBody(BLOCKS, threads)
    b.store(y, b.element, twice(build.load(x, b.element)))
    return grid_case("blocks and threads", b.kernel("k_threads", x, y))


def reversed_(threads: int) -> ConformanceCase:
    """Reads elements that other threads of the block wrote before a barrier."""
    x, y = ends(threads)
    b = GridBody(BLOCKS, threads)
    held = b.shared("held", F32, threads)
    b.store(held, b.thread, build.load(x, b.element))
    b.barrier()
    other = build.sub(threads - 1, b.thread)
    b.store(y, b.element, build.load(held, other))
    return grid_case("shared memory and a barrier", b.kernel("k_reversed", x, y))


def several(threads: int) -> ConformanceCase:
    """Shared buffers of several types, reused after a barrier."""
    x, y = ends(threads, I32)
    b = GridBody(BLOCKS, threads)
    small, large = b.shared("small", DType.U8, threads + 3), b.shared("large", I32, threads)
    value = b.let("value", build.load(x, b.element))
    b.store(small, b.thread, build.cast(value, DType.U8))
    b.store(large, b.thread, value)
    for turn in range(2):
        b.barrier()
        other = build.mod(build.add(b.thread, turn + 1), threads)
        narrow = build.cast(build.load(small, other), I32)
        total = b.let("total", build.apply(P.ADD, narrow, build.load(large, other)))
        b.barrier()
        b.store(large, b.thread, total)
    b.store(y, b.element, build.load(large, b.thread))
    return grid_case("shared buffers of several types", b.kernel("k_several", x, y))


def tree(threads: int) -> ConformanceCase:
    """A sum over each block, as a binary tree."""
    x, y = ends(threads, I32, BLOCKS)
    b = GridBody(BLOCKS, threads)
    held = b.shared("held", I32, threads)
    b.store(held, b.thread, build.load(x, b.element))
    distance = threads // 2
    while distance:
        b.barrier()
        with b.when(build.apply(P.LT, b.thread, build.index(distance))):
            other = build.load(held, build.add(b.thread, distance))
            b.store(held, b.thread, build.apply(P.ADD, build.load(held, b.thread), other))
        distance //= 2
    with b.when(build.apply(P.EQ, b.thread, build.index(0))):
        b.store(y, b.block_number, build.load(held, build.index(0)))
    return grid_case("a tree of barriers", b.kernel("k_tree", x, y))


def divergent(threads: int) -> ConformanceCase:
    """Threads that take different branches, and loops of different lengths, between barriers."""
    x, y = ends(threads, I32)
    b = GridBody(BLOCKS, threads)
    held = b.shared("held", I32, threads)
    total = b.variable("total", Const(0, I32))
    with b.loop("i", 0, build.mod(b.thread, 7)) as i:
        b.assign(total, build.apply(P.ADD, total, build.cast(build.add(i, 1), I32)))
    with b.when(build.apply(P.LT, b.thread, build.index(threads // 3))):
        b.assign(total, build.apply(P.SUB, total, build.load(x, b.element)))
    b.store(held, b.thread, total)
    b.barrier()
    b.store(y, b.element, build.load(held, build.sub(threads - 1, b.thread)))
    return grid_case("threads that diverge", b.kernel("k_divergent", x, y))


def many(threads: int) -> ConformanceCase:
    """More blocks than fit in 16 bits."""
    blocks = (1 << 16) + 3
    x = Buffer("x", DType.U8, blocks, align=1)
    y = Buffer("y", DType.U8, blocks, access=Access.WRITE, align=1)
    b = GridBody(blocks, 1)
    b.store(y, b.element, build.apply(P.ADD, build.load(x, b.element), Const(3, DType.U8)))
    return grid_case("more blocks than 16 bits count", b.kernel("k_many", x, y))


def without_blocks(threads: int) -> ConformanceCase:
    """A launch whose sizes give zero blocks: nothing happens, and there is no error."""
    n = Var("n", I64, low=0, high=1000)
    x = Buffer("x", F32, n, align=1)
    y = Buffer("y", F32, n, access=Access.WRITE, align=1)
    b = GridBody(build.div(build.add(n, threads - 1), threads), threads)
    with b.when(build.apply(P.LT, b.element, n)):
        b.store(y, b.element, twice(build.load(x, b.element)))
    kernel = b.kernel("k_empty", x, y, sizes=(n,))
    return of_kernel("a launch without blocks", kernel, values(F32, 0), group="grids", sizes=(0,))
