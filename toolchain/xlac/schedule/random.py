"""Random bits: a vector of blocks of the cipher at a time, their words interleaved in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ops import random
from xlac.ops.control import Pick
from xlac.ops.leaf import RngBits
from xlac.schedule import cost
from xlac.schedule.access import Run
from xlac.schedule.elements import Elements
from xlac.schedule.group import Group, Scheduled
from xlac.schedule.nest import lanes_for, outer
from xlac_sdk import build
from xlac_sdk.build import Builder
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Buffer, Const, Expr, Shuffle
from xlac_sdk.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
ROUNDS = 100  # operations a block, about
BATCH = 16  # vectors of blocks that a thread takes at a time


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """A launch for the bits, and one for the new state, so that the first may be split over threads."""
    op = group.hero.op
    assert isinstance(op, RngBits)
    picks = {n.op.index: n for n in group.outputs if isinstance(n.op, Pick)}
    count = prod(static(op.shape))
    launches = []
    if 1 in picks and count:
        elements = Elements(Builder(), group, target)
        _bits(elements, op, picks[1], count)
        launches.append(elements.launch(name, cost.work(group)))
    if 0 in picks:
        elements = Elements(Builder(), group, target)
        words = count * (2 if op.dtype is DType.U64 else 1)
        for k, value in enumerate(random.advance(op.algorithm, words, _state(elements))):
            elements.store(picks[0], (build.index(k),), value)
        launches.append(elements.launch(f"{name}_state"))
    return Scheduled(tuple(launches))


def _state(elements: Elements) -> Callable[[int], Expr]:
    (source,) = elements.group.hero.inputs
    return lambda k: elements.at(source, (build.index(k),))


def _bits(elements: Elements, op: RngBits, pick: Node, count: int) -> None:
    builder, target = elements.builder, elements.target
    out = elements.parameter(pick)
    words = random.ALGORITHMS[op.algorithm].words
    each = words // 2 if op.dtype is DType.U64 else words  # elements a block
    blocks = -(-count // each)
    lanes = lanes_for(target, [DType.U32], blocks)
    wide = lanes * each
    vectors, full = -(-blocks // lanes), count // wide
    batch = Run(-(-vectors // BATCH), ())
    with outer(builder, target, [batch], ROUNDS * lanes * BATCH) as counters:
        first = build.mul(counters[batch], BATCH)
        last = build.add(first, BATCH)
        if vectors % BATCH:
            last = builder.let("stop", build.apply(P.MIN, last, build.index(vectors)))
        with builder.loop("b", first, last) as b:
            number = build.ramp(build.mul(b, lanes), 1, lanes)
            found = random.block(op.algorithm, number, _state(elements), builder.let)
            if op.dtype is DType.U64:
                found = tuple(_joined(*found[k : k + 2]) for k in range(0, words, 2))
            parts = [builder.let("w", build.cast(w, op.dtype)) for w in found]
            at = build.ramp(build.mul(b, wide), 1, wide)
            if lanes == 1:
                _scalars(builder, out, parts, build.mul(b, wide), count)
                return
            value = builder.let("bits", _interleaved(parts))
            if full == vectors:
                builder.store(out, at, value)
                return
            inside = build.apply(P.LT, b, build.index(full))
            with builder.when(inside):
                builder.store(out, at, value)
            with builder.when(build.apply(P.XOR, inside, Const(True, DType.BOOL))):
                builder.store(out, at, value, build.apply(P.LT, at, build.index(count)))


def _scalars(builder: Builder, out: Buffer, parts: Sequence[Expr], start: Expr, count: int) -> None:
    """One block's elements, without those past the end."""
    for k, part in enumerate(parts):
        at = build.add(start, k)
        if count % len(parts) == 0:
            builder.store(out, at, part)
        else:
            with builder.when(build.apply(P.LT, at, build.index(count))):
                builder.store(out, at, part)


def _joined(low: Expr, high: Expr) -> Expr:
    """Two words as one of 64 bits."""
    upper = build.apply(P.SHL, build.cast(high, DType.U64), Const(32, DType.U64))
    return build.apply(P.OR, build.cast(low, DType.U64), upper)


def _interleaved(parts: Sequence[Expr]) -> Expr:
    """The first elements of all parts, the second ones, and so on: two by two, as registers do it."""
    while len(parts) > 1:
        half, lanes = len(parts) // 2, parts[0].lanes
        # part k meets part k + half, so that the last step brings the even and the odd ones together
        picks = tuple(k // 2 + (k % 2) * lanes for k in range(2 * lanes))
        parts = [Shuffle((parts[k], parts[k + half]), picks) for k in range(half)]
    return parts[0]
