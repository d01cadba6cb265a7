"""Sorting short lines by counting: the position of an element is the number of elements before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.cpu.sort.lines import Lines
from xlac.codegen.cpu.sort.order_keys import key_dtype, least
from xlac.codegen.schedules.sort import RankSortSchedule
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder, Number
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

Ranked = Callable[[Expr, Expr], None]
"""Called with the number of an element and its position, both scalars."""


def rank_sort(lines: Lines, schedule: RankSortSchedule) -> None:
    """Writes the kernel, for lines of a known length."""
    builder, count, lanes, kept = lines.builder, lines.count, schedule.lanes, lines.kept
    assert isinstance(count, int) and isinstance(kept, int)
    kind = key_dtype(lines.dtypes[0])
    with lines.inside(schedule.threads):
        keys = builder.local("keys", kind, -(-count // lanes) * lanes)
        strip_keys(lines, keys, count, lanes)

        def place(i: Expr, rank: Expr) -> None:
            with builder.when(build.apply(P.LT, rank, build.index(kept))):
                lines.store(bounded(builder, rank, kept - 1), lines.read(i))

        ranks(builder, keys, build.index(0), count, lanes, place)


def strip_keys(lines: Lines, keys: Buffer, count: int, lanes: int) -> None:
    """The order keys of a whole line, padded to whole vectors with the key that sorts last."""
    builder, target = lines.builder, lines.elements.target
    whole = count // lanes * lanes
    if whole < count and not target.masked:
        last = Const(least(keys.dtype), keys.dtype, lanes)
        builder.store(keys, build.ramp(build.index(whole), 1, lanes), last)

    def strip(firsts: Sequence[Expr], wide: int, mask: Expr | None) -> None:
        for first in firsts:
            builder.store(keys, build.ramp(first, 1, wide), lines.keys(first, wide, mask))

    strip_mine(builder, target, 0, count, lanes, 1, strip)


def ranks(
    builder: Builder, keys: Buffer, base: Expr, count: Number, lanes: int, ranked: Ranked
) -> None:
    """Calls `ranked` with the number of keys that sort before each of `count` keys: greater ones,
    and equal ones with a lower index.

    Keys are read in whole vectors from `base` on; those past `count` do not affect the result.
    """
    wide = DType.I32 if keys.dtype is DType.I32 else DType.I64
    counts = builder.local("ranks", wide, lanes)
    ones, none = Const(1, wide, lanes), Const(0, wide, lanes)
    # vectors of keys, each compared with one key after another
    with builder.loop("block", 0, count, lanes) as block:
        mine = builder.let("mine", build.load(keys, build.ramp(build.add(base, block), 1, lanes)))
        before = builder.variable("before", none)

        def counted(goes: Expr) -> None:
            builder.assign(before, build.apply(P.ADD, before, build.select(goes, ones, none)))

        inside = builder.let(
            "inside", build.apply(P.MIN, build.add(block, lanes), build.lift(count))
        )
        with builder.loop("j", 0, block) as j:
            other = build.splat(build.load(keys, build.add(base, j)), lanes)
            counted(build.apply(P.LE, mine, other))
        with builder.loop("j", block, inside) as j:
            other = build.splat(builder.let("other", build.load(keys, build.add(base, j))), lanes)
            behind = build.apply(
                P.LT,
                build.splat(build.cast(build.sub(j, block), wide), lanes),
                build.cast(build.ramp(build.index(0), 1, lanes), wide),
            )
            tied = build.apply(P.AND, build.apply(P.EQ, mine, other), behind)
            counted(build.apply(P.OR, build.apply(P.LT, mine, other), tied))
        with builder.loop("j", inside, count) as j:
            other = build.splat(build.load(keys, build.add(base, j)), lanes)
            counted(build.apply(P.LT, mine, other))
        builder.store(counts, build.ramp(build.index(0), 1, lanes), before)
        with builder.loop("i", block, inside) as i:
            rank = build.cast(build.load(counts, build.sub(i, block)), build.INDEX)
            ranked(i, builder.let("rank", rank))
