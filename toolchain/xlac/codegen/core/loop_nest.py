"""Loop nests: parallel loops, the serial loops inside them, and loops over pieces of extents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import gcd

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.schedules.schedule import SERIAL, Misfit, Threads
from xlac.ir.dims import Dim, Sym, ceil_div, divisor, size_hint, upper_bound, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr, Let, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

SERIAL_WORK = 1 << 16  # operations below which a kernel is not run in parallel
THREAD_WORK = 1 << 15  # operations for each piece of work that a thread takes
CHUNKS = 8  # pieces per thread of a parallel loop, to balance the load


def pieces_of(extent: Dim, size: int) -> Run:
    """The loop over pieces of at most `size` elements of an extent."""
    return Run(ceil_div(extent, size), ())


def piece(builder: Builder, start: Expr, extent: Dim, size: int) -> build.Number:
    """The length of the piece that begins at `start`; the last may be shorter."""
    if divisor(extent) % size == 0:
        return size
    left = build.apply(Primitive.MIN, build.index(size), build.sub(extent, start))
    return bounded(builder, left, size, by=gcd(divisor(extent), size))


def chunk_of(block: int, each: int) -> int:
    """Elements of a vector loop that are enough work for a thread: a power of two times `block`, so
    that it tends to divide extents.
    """
    wanted = THREAD_WORK // max(1, each) // block
    return block << max(0, wanted.bit_length() - 1)


def bounded(builder: Builder, value: Expr, high: Dim | None, low: int = 0, by: int = 1) -> Expr:
    """Names an index with a known range, and divisor `by`, that analysis could not derive from its
    expression.
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
    """How many leading loops are fused into a parallel one, and its grain: none if there is too
    little work. `cost` is the operations of one iteration of the innermost loop.
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
    """A nest of loops, of which those that threads share are fused into one PARALLEL loop. Yields
    the counter of each. Must be the first statement of the kernel, and the only one if it is
    parallel.
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


def check_threads(threads: Threads, loops: int) -> None:
    """Raises Misfit if more loops are parallel than there are."""
    if threads.loops > loops:
        raise Misfit(("threads", "loops"), f"there are {loops} loops to share")


@contextmanager
def serial_loops(
    builder: Builder, loops: Sequence[Run], counters: dict[Run, Expr]
) -> Iterator[None]:
    """Nested serial loops, whose counters are added to `counters`."""
    if not loops:
        yield
        return
    with builder.loop("o", 0, loops[0].extent) as counter:
        counters[loops[0]] = counter
        with serial_loops(builder, loops[1:], counters):
            yield
