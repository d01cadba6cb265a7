"""Products of reflections, and what reductions in panels of columns share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg import numbers
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    conjugate,
    cut,
    each,
    mul,
    product,
    rank,
    sizes,
    sub,
)
from xlac.ops.complex.linalg.systems import triangular_solve
from xlac.ops.linalg.matrices import written

WIDTH = 32  # columns of a panel, or an eighth of all if that is more


@dataclass(frozen=True, slots=True)
class Reflections:
    """The product H₁ H₂ … of reflections I - tau v v*, of rows from `first` on."""

    first: int
    vectors: Numbers  # as rows (…, k, m)
    taus: Numbers  # (…, k)

    def times(self, a: Numbers) -> Numbers:
        """The product times a (…, n, …): a - V (I + D N)⁻¹ D V* a, with taus on the diagonal of D,
        and the part of V* V above its diagonal as N.
        """
        last, (rows, _) = rank(a), sizes(a)
        kept, a = cut(a, last - 2, 0, self.first), cut(a, last - 2, self.first, rows)
        v = numbers.swapped(self.vectors)

        def by_taus(x: Numbers) -> Numbers:
            return mul(numbers.back(self.taus, x[0].shape, (last - 1,)), x)

        rows_of_v = conjugate(self.vectors)
        between = by_taus(product(rows_of_v, v))
        inner = triangular_solve(between, by_taus(product(rows_of_v, a)), lower=False, unit=True)
        a = sub(a, product(v, inner))
        return numbers.concat([kept, a], last - 2) if self.first else a


def turned(parts: Sequence[Reflections], a: Numbers) -> Numbers:
    """The product of all reflections times a."""
    for part in reversed(parts):
        a = part.times(a)
    return a


def panel(size: int, whole: int) -> int:
    """How many of the `size` columns that are left of `whole` are the next panel."""
    width = max(WIDTH, whole // 8 // 16 * 16)
    return size if size <= max(width, WIDTH) else width


def dot(a: Numbers, x: Numbers) -> Numbers:
    """Matrices (…, m, n) times vectors (…, n)."""
    last = rank(a)
    batch = tuple(range(last - 2))

    def real_dot(p: Node, q: Node) -> Node:
        return build.dot(p, q, ((last - 1,), (last - 2,)), (batch, batch))

    return numbers.bilinear(real_dot, a, x)


def after(x: Numbers, a: Numbers) -> Numbers:
    """Vectors (…, m) times matrices (…, m, n)."""
    last = rank(a)
    batch = tuple(range(last - 2))

    def real_dot(p: Node, q: Node) -> Node:
        return build.dot(p, q, ((last - 2,), (last - 2,)), (batch, batch))

    return numbers.bilinear(real_dot, x, a)


def weighted(factors: Numbers, x: Numbers) -> Numbers:
    """Vectors (…, n), each times a factor (…, 1)."""
    return mul(each(lambda p: build.broadcast_to(p, x[0].shape), factors), x)


def with_row(rows: Numbers, number: Node, row: Numbers) -> Numbers:
    """Rows (…, k, n) with another one (…, n) in the place of one."""
    return tuple(written(p, number, new) for p, new in zip(rows, row, strict=True))


def stacked(found: Node, first: int, count: int, last: int) -> Numbers:
    """Results of each step, (…) stacked in front, as (…, steps)."""
    order = [*range(1, last - 1), 0]
    return tuple(build.transpose(pick(found, first + n), order) for n in range(count))
