"""How long sums keep their digits: terms are added in blocks, and what adding the blocks' sums
loses is kept beside them.

One accumulator that takes term after term loses up to a rounding for each. A **block** is as many
terms as an accumulator takes in a row. The block's sum goes to a pair: a sum, and the sum of what
the roundings of that lost, which is found exactly (Knuth's two-sum). So the error is bounded by the
length of a block and not by that of the sum. Where blocks begin depends on sizes and on the lanes
of vectors only: never on caches, threads or what was measured. docs/SPEC.md states the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.ir.dims import Dim, divisor, size_hint, upper_bound
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr, Let, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
BLOCK = 16  # terms that an accumulator of a reduction takes in a row
UNEVEN = 2  # a block may be this much shorter than it could be, where such blocks come out even


def compensated(combine: str, dtype: DType) -> bool:
    """Whether combining elements loses digits that can be kept: sums of floats."""
    return combine == "add" and dtype.is_float


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which of nested loops is cut into blocks (0: the outermost), and how many of its turns a
    block has.
    """

    loop: int
    turns: int


def blocks(extents: Sequence[Dim], limit: int = BLOCK, whole: int = 0) -> Blocks | None:
    """How to cut nested loops, outermost first, so that no accumulator takes more than about
    `limit` terms in a row.

    Loops that together have no more than that, or than `whole`, are left as they are; None where
    these are all.
    """
    terms = 1
    for number in reversed(range(len(extents))):
        extent = extents[number]
        if terms * upper_bound(extent) > max(limit, whole):
            return Blocks(number, turns(extent, max(1, limit // terms)))
        terms *= max(1, upper_bound(extent))
    return None


def turns(extent: Dim, limit: int) -> int:
    """How many of `extent` turns a block has: at most `limit`, fewer where blocks then are of one
    length.
    """
    by = divisor(extent)
    even = next((n for n in range(limit, limit // UNEVEN, -1) if by % n == 0), None)
    return even or (
        limit
        if not isinstance(extent, int)
        else -(-size_hint(extent) // -(-size_hint(extent) // limit))
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """A sum and the sum of what its roundings lost, in two mutable names."""

    builder: Builder
    high: Var
    low: Var

    @staticmethod
    def of(builder: Builder, high: Var) -> Pair:
        """A pair whose sum is a name that there is already; nothing is lost so far."""
        return Pair(builder, high, builder.variable("lost", Const(0.0, high.dtype, high.lanes)))

    def add(self, value: Expr) -> None:
        """Takes in a value."""
        high, lost = two_sum(self.builder, _now(self.builder, self.high), value)
        self.builder.assign(self.high, high)
        self.builder.assign(self.low, build.apply(P.ADD, self.low, lost))

    def total(self) -> Expr:
        """What both are together."""
        return whole(self.builder, _now(self.builder, self.high), _now(self.builder, self.low))


def two_sum(builder: Builder, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b rounded, and exactly what the rounding lost (NaN where anything is not finite)."""
    b = builder.let("part", b)
    high = builder.let("high", build.apply(P.ADD, a, b))
    other = builder.let("other", build.apply(P.SUB, high, a))
    first = build.apply(P.SUB, a, build.apply(P.SUB, high, other))
    return high, build.apply(P.ADD, first, build.apply(P.SUB, b, other))


def whole(builder: Builder, high: Expr, low: Expr) -> Expr:
    """A sum with what it lost: the sum alone where that is no number, which an infinite sum makes
    it.
    """
    finite = build.apply(P.EQ, low, low)
    return build.select(builder.let("finite", finite), build.apply(P.ADD, high, low), high)


def _now(builder: Builder, var: Var) -> Expr:
    """A name for what a mutable one is now."""
    now = Var(builder.fresh("r"), var.dtype, var.lanes)
    builder.emit(Let(now, var))
    return now
