"""Compensated summation: terms are summed in blocks, and the rounding errors of adding block sums
are kept.

A single accumulator loses up to one rounding for each term. A **block** is the terms that one
accumulator sums in sequence. The block's sum is added to a pair: a running sum, and the sum of the
rounding errors of its additions, which are computed exactly (Knuth's two-sum). So the error is
bounded by the length of a block and not by that of the sum. Block boundaries depend only on sizes
and on vector lanes, never on caches, threads or measurements. docs/SPEC.md states the bounds.
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
BLOCK = 16  # terms of a reduction that an accumulator sums in sequence
UNEVEN = 2  # a block may be this much shorter than its limit if blocks then divide the extent


def compensated(combine: str, dtype: DType) -> bool:
    """Whether a combination has rounding errors that can be compensated: sums of floats."""
    return combine == "add" and dtype.is_float


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which of several nested loops is split into blocks (0: the outermost), and the iterations of
    a block.
    """

    loop: int
    turns: int


def blocks(extents: Sequence[Dim], limit: int = BLOCK, whole: int = 0) -> Blocks | None:
    """How to split nested loops, outermost first, so that no accumulator sums more than about
    `limit` terms in sequence.

    Loops with no more terms than that, or than `whole`, are not split; None if that is all of them.
    """
    terms = 1
    for number in reversed(range(len(extents))):
        extent = extents[number]
        if terms * upper_bound(extent) > max(limit, whole):
            return Blocks(number, turns(extent, max(1, limit // terms)))
        terms *= max(1, upper_bound(extent))
    return None


def turns(extent: Dim, limit: int) -> int:
    """The iterations of a block, of `extent` in total: at most `limit`, fewer if blocks then have
    equal lengths.
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
    """A sum and the sum of its rounding errors, in two mutable variables."""

    builder: Builder
    high: Var
    low: Var

    @staticmethod
    def of(builder: Builder, high: Var) -> Pair:
        """A pair for an existing variable, with no error so far."""
        return Pair(builder, high, builder.variable("lost", Const(0.0, high.dtype, high.lanes)))

    def add(self, value: Expr) -> None:
        """Adds a value."""
        high, lost = two_sum(self.builder, _now(self.builder, self.high), value)
        self.builder.assign(self.high, high)
        self.builder.assign(self.low, build.apply(P.ADD, self.low, lost))

    def total(self) -> Expr:
        """The sum including its error."""
        return whole(self.builder, _now(self.builder, self.high), _now(self.builder, self.low))


def two_sum(builder: Builder, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a + b rounded, and its exact rounding error (NaN unless everything is finite)."""
    b = builder.let("part", b)
    high = builder.let("high", build.apply(P.ADD, a, b))
    other = builder.let("other", build.apply(P.SUB, high, a))
    first = build.apply(P.SUB, a, build.apply(P.SUB, high, other))
    return high, build.apply(P.ADD, first, build.apply(P.SUB, b, other))


def whole(builder: Builder, high: Expr, low: Expr) -> Expr:
    """A sum plus its error; the sum alone if the error is NaN, as it is for an infinite sum."""
    finite = build.apply(P.EQ, low, low)
    return build.select(builder.let("finite", finite), build.apply(P.ADD, high, low), high)


def _now(builder: Builder, var: Var) -> Expr:
    """Names the current value of a mutable variable."""
    now = Var(builder.fresh("r"), var.dtype, var.lanes)
    builder.emit(Let(now, var))
    return now
