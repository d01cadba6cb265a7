"""Strip mining: splits a loop into vectors; chooses their width, how many are unrolled, and the
tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Dim, Sym, divisor, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

UNROLLED = 32  # the most unrolled vectors, which bounds compile time


Strip = Callable[[Sequence[Expr], int, Expr | None], None]
"""Writes the loop body for vector counters: their first indices (one for each copy), lanes, and a
mask for all of them or None.
"""


def lanes_for(target: Target, dtypes: Sequence[DType] | frozenset[DType], extent: Dim) -> int:
    """Lanes for a loop over `extent` elements of values of these types, no more than the extent
    usually fills.
    """
    if not target.vector_bytes:
        return 1
    extent = size_hint(extent)
    widest = max((d.compute.nbytes for d in dtypes), default=4)
    full = max(1, target.vector_bytes // widest)
    full = min(full, target.most_lanes) if target.most_lanes else full
    down = 1 << (min(full, max(1, extent)).bit_length() - 1)
    if target.masked and down < extent and down < full:
        return down * 2
    return down


# operations for each element, about one exp, above which latency limits a loop more than the number
# of execution units
DEEP = 16
# of a target, from which on four long chains at once are worth what they spill: with 16 (AVX2) gelu
# and a chain of 24 operations take 0.8 and 0.65 of the time
REGISTERS = 16


def joins(target: Target, flops: int) -> bool:
    """Whether unrolled vectors are written as one long vector.

    Its parts are interleaved instruction by instruction. If the vectors were written one after the
    other, the dependence chain of each would fill the processor's reorder window before the next
    begins. Languages with vectors of few lanes have no such one.
    """
    return (
        flops >= DEEP
        and not target.most_lanes
        and target.vector_registers >= REGISTERS
        and target.vector_bytes > 0
        and not target.size
    )


def unroll_for(target: Target, statements: int, flops: int = 0) -> int:
    """The unroll factor in vectors, which hides latency without spilling registers or bloating the
    code.
    """
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
    join_rest: bool = True,
    narrow: bool = False,
) -> None:
    """Covers `length` elements from `start` by vectors: `copies` at a time, then single vectors,
    then a masked or scalar tail.

    Vectors processed together form one long vector if they `join`, including the remaining ones
    if `join_rest`. A tail of known length without masks is in ever narrower vectors if the body
    takes `narrow` ones.
    """
    if isinstance(length, int):
        last = _strip_mine_known(
            builder, target, start, length, lanes, copies, body, join, join_rest
        )
        if narrow and not target.size:
            while lanes > 2:
                lanes //= 2
                if length - last >= lanes:
                    body([build.add(start, last)], lanes, None)
                    last += lanes
        if last < length:
            with builder.loop("i", last, length) as i:
                body([build.add(start, i)], 1, None)
        return
    if isinstance(length, Sym):
        _strip_mine_open(builder, target, start, length, lanes, copies, body, join, join_rest)
        return
    block = lanes * copies
    stop = build.add(start, length)
    high = build.bounds(stop)[1]
    main_stop = bounded(builder, build.add(start, build.mul(build.div(length, block), block)), high)
    with builder.loop("i", start, main_stop, block) as i:
        _several(body, i, lanes, copies, join)
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


def _several(body: Strip, first: Expr, lanes: int, copies: int, join: bool) -> None:
    """The body for the vectors that are processed together."""
    if join:
        body([first], lanes * copies, None)
    else:
        body([build.add(first, c * lanes) for c in range(copies)], lanes, None)


def _strip_mine_known(
    builder: Builder,
    target: Target,
    start: build.Number,
    length: int,
    lanes: int,
    copies: int,
    body: Strip,
    join: bool,
    join_rest: bool,
) -> int:
    """The same for a static length, whose remainder is static too, but for a tail without masks;
    where that begins.
    """
    block = lanes * copies
    main = length // block * block
    single = length // lanes * lanes
    with builder.loop("i", 0, main, block) as i:
        _several(body, build.add(start, i), lanes, copies, join)
    if join and join_rest and target.masked and lanes > 1 and length > main + lanes:
        wide = 1 << (length - main - 1).bit_length()
        base = build.add(start, main)
        body(
            [base],
            wide,
            None if main + wide == length else _below(base, build.add(start, length), wide),
        )
        return length
    if copies > 1:
        with builder.loop("i", main, single, lanes) as i:
            body([build.add(start, i)], lanes, None)
    if single < length and target.masked and lanes > 1:
        base = build.add(start, single)
        body([base], lanes, _below(base, build.add(start, length), lanes))
        return length
    return single


def _strip_mine_open(
    builder: Builder,
    target: Target,
    start: build.Number,
    length: Sym,
    lanes: int,
    copies: int,
    body: Strip,
    join: bool,
    join_rest: bool,
) -> None:
    """The same for a dynamic length, whose remainder is tested at run time."""
    block = lanes * copies
    main, single = length // block * block, length // lanes * lanes
    stop, masks = build.add(start, length), target.masked and lanes > 1

    def last(first: Dim, wide: int) -> None:
        base = build.add(start, first)
        body([base], wide, _below(base, stop, wide))

    with builder.loop("i", 0, main, block) as i:
        _several(body, build.add(start, i), lanes, copies, join)
    if join and join_rest and masks:
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


def check_vectors(lanes: int, unroll: int, join: bool, target: Target) -> None:
    """Raises Misfit for vectors that a target does not have: more lanes than a register has bytes,
    or not a power of two.
    """
    if lanes & (lanes - 1) or lanes > max(1, target.vector_bytes):
        most = max(1, target.vector_bytes)
        raise Misfit(("lanes",), f"it must be a power of two, at most {most} on this target")
    if unroll > UNROLLED:
        raise Misfit(("unroll",), f"it must be at most {UNROLLED}")
    if target.most_lanes and lanes * (unroll if join else 1) > target.most_lanes:
        raise Misfit(("lanes",), f"a vector of this target has at most {target.most_lanes}")
    if join and unroll & (unroll - 1):
        raise Misfit(("unroll",), "vectors that join are a power of two")
