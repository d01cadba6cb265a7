"""Loop nests that schedules share: vector strips with tails, and outer loops split over threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.schedules.schedule import SERIAL, Misfit, Threads
from xlac.ir.dims import Dim, Sym, ceil_div, divisor, size_hint, upper_bound, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr, Let, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

SERIAL_WORK = 1 << 16  # operations below which a kernel is not worth splitting over threads
THREAD_WORK = 1 << 15  # operations worth a thread of their own
UNROLLED = 32  # vectors written out at most: more are a matter of patience
CHUNKS = 8  # pieces a thread of a split loop, so that threads finish together

Strip = Callable[[Sequence[Expr], int, Expr | None], None]
"""Writes the work at vector counters: their bases (one a copy), lanes, and a mask for all of them
or None.
"""


def lanes_for(target: Target, dtypes: Sequence[DType] | frozenset[DType], extent: Dim) -> int:
    """Lanes for a loop over `extent` elements of values of these types: no more than it can usually
    fill.
    """
    if not target.vector_bytes:
        return 1
    extent = size_hint(extent)
    widest = max((d.compute.nbytes for d in dtypes), default=4)
    full = max(1, target.vector_bytes // widest)
    down = 1 << (min(full, max(1, extent)).bit_length() - 1)
    if target.masked and down < extent and down < full:
        return down * 2
    return down


# operations an element, about one exp: from here on a processor waits for results more than for
# units
DEEP = 16


def joins(target: Target, flops: int) -> bool:
    """Whether the vectors worked on at once are written as one long vector.

    Its parts take turns, instruction by instruction. Written one after the other, the chain of
    operations of each fills the processor's window before the next begins.
    """
    return (
        flops >= DEEP
        and target.vector_registers >= 32
        and target.vector_bytes > 0
        and not target.size
    )


def unroll_for(target: Target, statements: int, flops: int = 0) -> int:
    """Vectors worked on at once, to hide latency without running out of registers or of patience."""
    if not target.vector_bytes or target.size:
        return 1
    if joins(target, flops):
        return 4
    if statements <= 10:
        return 4
    return 2 if statements <= 40 else 1


def strip_mine(
    builder: Builder,
    target: Target,
    start: build.Number,
    length: build.Number,
    lanes: int,
    copies: int,
    body: Strip,
    join: bool = False,
) -> None:
    """Covers `length` elements from `start` by vectors: `copies` at a time, one by one, then a
    masked or scalar tail.

    Those at a time are one long vector when they `join`, and so are those that are left.
    """
    block = lanes * copies

    def several(first: Expr) -> None:
        if join:
            body([first], block, None)
        else:
            body([build.add(first, c * lanes) for c in range(copies)], lanes, None)

    if isinstance(length, int):
        main = length // block * block
        single = length // lanes * lanes
        with builder.loop("i", 0, main, block) as i:
            several(build.add(start, i))
        if join and target.masked and lanes > 1 and length > main + lanes:
            wide = 1 << (length - main - 1).bit_length()
            base = build.add(start, main)
            body(
                [base],
                wide,
                None if main + wide == length else _below(base, build.add(start, length), wide),
            )
            return
        if copies > 1:
            with builder.loop("i", main, single, lanes) as i:
                body([build.add(start, i)], lanes, None)
        if single == length:
            return
        if target.masked and lanes > 1:
            base = build.add(start, single)
            body([base], lanes, _below(base, build.add(start, length), lanes))
        else:
            with builder.loop("i", single, length) as i:
                body([build.add(start, i)], 1, None)
        return
    if isinstance(length, Sym):
        _strip_mine_open(builder, target, start, length, lanes, copies, body, join)
        return
    stop = build.add(start, length)
    high = build.bounds(stop)[1]
    main_stop = bounded(builder, build.add(start, build.mul(build.div(length, block), block)), high)
    with builder.loop("i", start, main_stop, block) as i:
        several(i)
    if build.multiple(length) % lanes == 0:
        if copies > 1:
            with builder.loop("i", main_stop, stop, lanes) as i:
                body([i], lanes, None)
    elif target.masked and lanes > 1:
        with builder.loop("i", main_stop, stop, lanes) as i:
            body([i], lanes, _below(i, stop, lanes))
    elif block > 1:
        with builder.loop("i", main_stop, stop) as i:
            body([i], 1, None)


def _strip_mine_open(
    builder: Builder,
    target: Target,
    start: build.Number,
    length: Sym,
    lanes: int,
    copies: int,
    body: Strip,
    join: bool,
) -> None:
    """The same for a length that the call decides: what is left over is tested for."""
    block = lanes * copies
    main, single = length // block * block, length // lanes * lanes
    stop, masks = build.add(start, length), target.masked and lanes > 1

    def last(first: Dim, wide: int) -> None:
        base = build.add(start, first)
        body([base], wide, _below(base, stop, wide))

    with builder.loop("i", 0, main, block) as i:
        first = build.add(start, i)
        if join:
            body([first], block, None)
        else:
            body([build.add(first, c * lanes) for c in range(copies)], lanes, None)
    if join and masks:
        left = builder.let("left", build.sub(length, main))
        with builder.when(build.apply(Primitive.LT, build.index(lanes), left)):
            last(main, block)
        some = build.apply(Primitive.LT, build.index(0), left)
        with builder.when(
            build.apply(Primitive.AND, some, build.apply(Primitive.LE, left, build.index(lanes)))
        ):
            last(main, lanes)
        return
    if copies > 1 and divisor(length) % block:
        with builder.loop("i", main, single, lanes) as i:
            body([build.add(start, i)], lanes, None)
    if divisor(length) % lanes == 0:
        return
    if masks:
        with builder.when(build.apply(Primitive.LT, build.lift(single), build.lift(length))):
            last(single, lanes)
    else:
        with builder.loop("i", single, length) as i:
            body([build.add(start, i)], 1, None)


def _below(counter: Expr, stop: Expr, lanes: int) -> Expr:
    return build.apply(Primitive.LT, build.ramp(counter, 1, lanes), stop)


def pieces_of(extent: Dim, size: int) -> Run:
    """The loop over the pieces of at most `size` elements that an extent is cut into."""
    return Run(ceil_div(extent, size), ())


def piece(builder: Builder, start: Expr, extent: Dim, size: int) -> build.Number:
    """How long the piece is that begins at `start`: the last may be shorter."""
    if divisor(extent) % size == 0:
        return size
    left = build.apply(Primitive.MIN, build.index(size), build.sub(extent, start))
    return bounded(builder, left, size, by=gcd(divisor(extent), size))


def chunk_of(block: int, each: int) -> int:
    """Elements of a vector loop that are worth a thread: a power of two of blocks, so that it tends
    to divide extents.
    """
    wanted = THREAD_WORK // max(1, each) // block
    return block << max(0, wanted.bit_length() - 1)


def bounded(builder: Builder, value: Expr, high: Dim | None, low: int = 0, by: int = 1) -> Expr:
    """A name for an index that is known to lie in a range, and to be a multiple of `by`, which its
    form does not show.
    """
    if isinstance(value, Const):
        return value
    below = build.lift(high + 1) if isinstance(high, Sym) else None
    var = Var(
        builder.fresh("n"),
        build.INDEX,
        1,
        low,
        None if high is None else upper_bound(high),
        by,
        below,
    )
    builder.emit(Let(var, value))
    return var


def share(target: Target, loops: Sequence[Run], cost: int) -> Threads:
    """How many of the leading loops threads share, as one, and how much of them at once: none where
    there is too little work. `cost` is the operations of one iteration of the innermost.
    """
    count = size_hint(volume(tuple(run.extent for run in loops)))
    if count * cost < SERIAL_WORK or count < 2:
        return SERIAL
    leading, usual = 0, 1
    while leading < len(loops) and usual < CHUNKS * max(2, target.threads):
        usual *= loops[leading].usual
        leading += 1
    return Threads(leading, max(1, THREAD_WORK // max(1, cost * (count // usual))))


@contextmanager
def nest(builder: Builder, loops: Sequence[Run], threads: Threads) -> Iterator[dict[Run, Expr]]:
    """Loops over runs, those that threads share fused into one PARALLEL loop. Yields the counter of
    each run. Must be the first statement of the kernel, and the only one, when threads share it.
    """
    counters: dict[Run, Expr] = {}
    leading = threads.loops
    if not leading:
        with serial_loops(builder, loops, counters):
            yield counters
        return
    extent = volume(())
    for run in loops[:leading]:
        extent = extent * run.extent
    with builder.loop("p", 0, extent, kind=LoopKind.PARALLEL, grain=threads.grain) as p:
        for run in reversed(loops[1:leading]):
            counters[run] = builder.let("p", build.mod(p, run.extent))
            p = builder.let("p", build.div(p, run.extent))
        counters[loops[0]] = p
        with serial_loops(builder, loops[leading:], counters):
            yield counters


@contextmanager
def parallel_loops(
    builder: Builder, target: Target, loops: Sequence[Run], cost: int
) -> Iterator[dict[Run, Expr]]:
    """The `nest` of these loops, shared by threads where there is enough work in them and nothing
    is around them.
    """
    inside = len(builder.open_blocks) > 1
    with nest(builder, loops, SERIAL if inside else share(target, loops, cost)) as counters:
        yield counters


def check_vectors(lanes: int, unroll: int, join: bool, target: Target) -> None:
    """Raises Misfit for vectors that a target has not: of more lanes than a register has bytes, or
    of a number that is no power of two.
    """
    if lanes & (lanes - 1) or lanes > max(1, target.vector_bytes):
        most = max(1, target.vector_bytes)
        raise Misfit(("lanes",), f"it is a power of two, at most {most} on this target")
    if unroll > UNROLLED:
        raise Misfit(("unroll",), f"it is at most {UNROLLED}")
    if join and unroll & (unroll - 1):
        raise Misfit(("unroll",), "vectors that join are a power of two")


def check_threads(threads: Threads, loops: int) -> None:
    """Raises Misfit for threads that would share more than so many loops."""
    if threads.loops > loops:
        raise Misfit(("threads", "loops"), f"there are {loops} loops to share")


@contextmanager
def serial_loops(
    builder: Builder, loops: Sequence[Run], counters: dict[Run, Expr]
) -> Iterator[None]:
    """Loops over runs, one inside the other, their counters added to `counters`."""
    if not loops:
        yield
        return
    with builder.loop("o", 0, loops[0].extent) as counter:
        counters[loops[0]] = counter
        with serial_loops(builder, loops[1:], counters):
            yield
