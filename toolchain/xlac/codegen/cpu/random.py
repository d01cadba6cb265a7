"""Random bits: a vector of blocks of the cipher at a time, their words interleaved in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import parallel_loops
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import lanes_for, strip_mine
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ops import random
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
ROUNDS = 100  # operations a block, about
BATCH = 16  # vectors of blocks that a thread takes at a time


def lower(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    bits: type[RandomBits] | None = None,
) -> LoweredGroup:
    """A launch for the bits, written by `bits`, and one for the new state, so that the first may be
    split over threads.
    """
    op = group.anchor.op
    assert isinstance(op, RngBits)
    picks = {n.op.index: n for n in group.outputs if isinstance(n.op, Pick)}
    count = prod(static(op.shape))
    launches = []
    if 1 in picks and count:
        elements = Elements(Builder(), group, target)
        (bits or RandomBits)(elements, op, picks[1]).write()
        launches.append(elements.launch(name, cost.work(group)))
    if 0 in picks:
        elements = Elements(Builder(), group, target)
        blocks = random.layout(op.algorithm, static(op.shape), op.dtype).blocks
        for k, value in enumerate(random.advance(op.algorithm, blocks, _state(elements))):
            elements.store(picks[0], (build.index(k),), value)
        launches.append(elements.launch(f"{name}_state"))
    return LoweredGroup(tuple(launches))


def _state(elements: Elements) -> Callable[[int], Expr]:
    (source,) = elements.group.anchor.inputs
    return lambda k: elements.at(source, (build.index(k),))


class RandomBits:
    """Writes the kernel for the bits."""

    def __init__(self, elements: Elements, op: RngBits, pick: Node) -> None:
        self.elements, self.builder, self.target, self.op = (
            elements,
            elements.builder,
            elements.target,
            op,
        )
        self.out = elements.parameter(pick)
        self.layout = random.layout(op.algorithm, static(op.shape), op.dtype)

    def write(self) -> None:
        """The results as rows or as planes, as the generator's layout has them."""
        if self.layout.inner == 1:
            self.rows()
        else:
            self.planes()

    def values(self, number: Expr) -> list[Expr]:
        """The elements of blocks: one value, or vector, for each place in a block."""
        found = random.block(self.op.algorithm, number, _state(self.elements), self.builder.let)
        if self.op.dtype is DType.U64:
            found = tuple(_joined(*found[k : k + 2]) for k in range(0, len(found), 2))
        return [self.builder.let("w", build.cast(w, self.op.dtype)) for w in found]

    def rows(self) -> None:
        """Neighbours are adjacent in memory: vectors of blocks, their elements interleaved."""
        builder, count, each = self.builder, self.layout.count, self.layout.each
        blocks = self.layout.steps
        lanes = lanes_for(self.target, [DType.U32], blocks)
        wide = lanes * each
        vectors, full = -(-blocks // lanes), count // wide
        row, batch = Run(self.layout.outer, ()), Run(-(-vectors // BATCH), (1,))
        with parallel_loops(
            builder, self.target, [row, batch], ROUNDS * lanes * min(BATCH, vectors)
        ) as counters:
            first = build.mul(counters[batch], BATCH)
            last = build.add(first, BATCH)
            if vectors % BATCH:
                last = builder.let("stop", build.apply(P.MIN, last, build.index(vectors)))
            with builder.loop("b", first, last) as b:
                number = build.add(build.mul(counters[row], blocks), build.mul(b, lanes))
                parts = self.values(build.ramp(number, 1, lanes))
                place = build.mul(b, wide)
                base = build.mul(counters[row], count)
                if lanes == 1:
                    scalars(builder, self.out, parts, base, place, count)
                    return
                value = builder.let("bits", _interleaved(parts))
                at = build.ramp(build.add(base, place), 1, wide)
                if full == vectors:
                    builder.store(self.out, at, value)
                    return
                inside = builder.let("inside", build.apply(P.LT, b, build.index(full)))
                with builder.when(inside):
                    builder.store(self.out, at, value)
                with builder.when(build.apply(P.XOR, inside, Const(True, DType.BOOL))):
                    within = build.apply(P.LT, build.ramp(place, 1, wide), build.index(count))
                    builder.store(self.out, at, value, within)

    def planes(self) -> None:
        """Neighbours are `inner` elements apart: vectors along the inner axes, an element of each
        block a plane.
        """
        builder, layout = self.builder, self.layout
        lanes = lanes_for(self.target, [DType.U32], layout.inner)
        step = Run(layout.outer * layout.steps, ())
        with parallel_loops(builder, self.target, [step], ROUNDS * layout.inner) as counters:
            s = counters[step]
            plane = builder.let("plane", build.div(s, layout.steps))
            p = builder.let("step", build.mod(s, layout.steps))

            def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                for base in bases:
                    k = build.ramp(base, 1, wide)
                    parts = self.values(build.add(build.mul(s, layout.inner), k))
                    for number, part in enumerate(parts):
                        along = build.add(build.mul(p, layout.each), number)
                        at = build.add(
                            build.mul(
                                build.add(build.mul(plane, layout.count), along), layout.inner
                            ),
                            k,
                        )
                        if layout.count % layout.each and number:
                            with builder.when(build.apply(P.LT, along, build.index(layout.count))):
                                builder.store(self.out, at, part, mask)
                        else:
                            builder.store(self.out, at, part, mask)

            strip_mine(builder, self.target, 0, layout.inner, lanes, 1, strip)


def scalars(
    builder: Builder, out: Buffer, parts: Sequence[Expr], base: Expr, place: Expr, count: int
) -> None:
    """One block's elements, without those past the end of the row."""
    for k, part in enumerate(parts):
        along = build.add(place, k)
        if count % len(parts) == 0:
            builder.store(out, build.add(base, along), part)
        else:
            with builder.when(build.apply(P.LT, along, build.index(count))):
                builder.store(out, build.add(base, along), part)


def _joined(low: Expr, high: Expr) -> Expr:
    """Two words as one of 64 bits."""
    upper = build.apply(P.SHL, build.cast(high, DType.U64), Const(32, DType.U64))
    return build.apply(P.OR, build.cast(low, DType.U64), upper)


def _interleaved(parts: Sequence[Expr]) -> Expr:
    """The first elements of all parts, the second ones, and so on: two by two, as registers do it."""
    while len(parts) > 1:
        half, lanes = len(parts) // 2, parts[0].lanes
        # part k meets part k + half, so that the last step brings the even and the odd ones
        # together
        picks = tuple(k // 2 + (k % 2) * lanes for k in range(2 * lanes))
        parts = [Shuffle((parts[k], parts[k + half]), picks) for k in range(half)]
    return parts[0]
