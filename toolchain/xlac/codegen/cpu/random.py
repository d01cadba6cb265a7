"""Random bits: a vector of cipher blocks at a time, whose words are interleaved in registers."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.kinds import random
from xlac.codegen.core.kinds.random import RandomBits, scalars
from xlac.codegen.core.loop_nest import check_threads, nest, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.random import (
    RANDOM,
    RandomPlanesSchedule,
    RandomRowsSchedule,
    RandomSchedule,
)
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import Group
from xlac.ir.dims import ceil_div, divisor, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
ROUNDS = 100  # operations of a cipher block, approximately
BATCH = 16  # vectors of cipher blocks in a piece of work for a thread


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A launch for the bits, and one for the new state."""
    return random.lower(group, target, name, lower_part, _BitsInVectors)


class _BitsInVectors(RandomBits):
    """The kernel for CPUs: vectors of cipher blocks."""

    def write(self, name: str, decisions: Decisions) -> None:
        schedule: RandomSchedule = decisions.settle(name, self._choose(), self._check, RANDOM)
        match schedule:
            case RandomRowsSchedule():
                self._rows(schedule)
            case RandomPlanesSchedule():
                self._planes(schedule)

    def _choose(self) -> RandomSchedule:
        """Rows if the words of a cipher block are contiguous in the result, else planes."""
        layout, target = self.layout, self.target
        if layout.inner != 1:
            lanes = lanes_for(target, [DType.U32], layout.inner)
            step = Run(layout.outer * layout.steps, ())
            return RandomPlanesSchedule(
                lanes, share(target, [step], ROUNDS * size_hint(layout.inner))
            )
        lanes = lanes_for(target, [DType.U32], layout.steps)
        each = ROUNDS * lanes * min(BATCH, size_hint(ceil_div(layout.steps, lanes)))
        threads = share(target, self._row_loops(lanes, BATCH), each)
        return RandomRowsSchedule(lanes, BATCH, threads)

    def _check(self, schedule: RandomSchedule) -> None:
        """Raises Misfit for a schedule of another layout, or for vectors that the target does not
        have.
        """
        rows = isinstance(schedule, RandomRowsSchedule)
        if rows != (self.layout.inner == 1):
            words = "neighbours" if self.layout.inner == 1 else "a row apart"
            raise Misfit(("template",), f"the words of a block are {words} in this result")
        check_vectors(schedule.lanes, 1, False, self.target)
        check_threads(schedule.threads, 2 if rows else 1)

    def _row_loops(self, lanes: int, batch: int) -> list[Run]:
        """The loops over rows, and over pieces of `batch` vectors of a row."""
        vectors = ceil_div(self.layout.steps, lanes)
        return [Run(self.layout.outer, ()), Run(ceil_div(vectors, batch), (1,))]

    def _rows(self, schedule: RandomRowsSchedule) -> None:
        """Words of a block are contiguous in memory: vectors of cipher blocks, whose elements are
        interleaved.
        """
        builder, count, each = self.builder, self.layout.count, self.layout.each
        blocks, lanes, size = self.layout.steps, schedule.lanes, schedule.batch
        wide = lanes * each
        vectors, full = ceil_div(blocks, lanes), count // wide
        row, batch = self._row_loops(lanes, size)
        with nest(builder, [row, batch], schedule.threads) as counters:
            first = build.mul(counters[batch], size)
            last = build.add(first, size)
            if divisor(vectors) % size:
                last = builder.let("stop", build.apply(P.MIN, last, build.lift(vectors)))
            with builder.loop("b", first, last) as b:
                number = build.add(
                    build.mul(counters[row], build.lift(blocks)), build.mul(b, lanes)
                )
                parts = self.values(build.ramp(number, 1, lanes))
                place = build.mul(b, wide)
                base = build.mul(counters[row], build.lift(count))
                if lanes == 1:
                    scalars(builder, self.out, parts, base, place, count)
                    return
                value = builder.let("bits", _interleaved(parts))
                at = build.ramp(build.add(base, place), 1, wide)
                if divisor(count) % wide == 0:
                    builder.store(self.out, at, value)
                    return
                inside = builder.let("inside", build.apply(P.LT, b, build.lift(full)))
                with builder.when(inside):
                    builder.store(self.out, at, value)
                with builder.when(build.apply(P.XOR, inside, Const(True, DType.BOOL))):
                    within = build.apply(
                        P.LT, build.ramp(place, 1, wide), build.splat(build.lift(count), wide)
                    )
                    builder.store(self.out, at, value, within)

    def _planes(self, schedule: RandomPlanesSchedule) -> None:
        """Words of a block are `inner` elements apart: vectors along the inner axes, and one plane
        for each word.
        """
        builder, layout = self.builder, self.layout
        step = Run(layout.outer * layout.steps, ())
        with nest(builder, [step], schedule.threads) as counters:
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
                        if not layout.whole and number:
                            with builder.when(build.apply(P.LT, along, build.lift(layout.count))):
                                builder.store(self.out, at, part, mask)
                        else:
                            builder.store(self.out, at, part, mask)

            strip_mine(builder, self.target, 0, layout.inner, schedule.lanes, 1, strip)


def _interleaved(parts: Sequence[Expr]) -> Expr:
    """Interleaves vectors: the first elements of all parts, then the second ones, and so on, by
    pairwise shuffles.
    """
    while len(parts) > 1:
        half, lanes = len(parts) // 2, parts[0].lanes
        # part k is paired with part k + half, so that the last step interleaves even and odd
        # elements
        picks = tuple(k // 2 + (k % 2) * lanes for k in range(2 * lanes))
        parts = [Shuffle((parts[k], parts[k + half]), picks) for k in range(half)]
    return parts[0]
