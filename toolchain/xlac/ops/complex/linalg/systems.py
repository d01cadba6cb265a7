"""Triangular systems and triangular factors of complex matrices.

A complex number as the real matrix (a -b, b a) makes of a complex matrix a real one of twice the
size. That of a triangular matrix with a real diagonal is triangular, so the real operations solve
with it, and the real factor of a Hermitian matrix is that of the complex factor.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    back,
    concat,
    cut,
    diagonal,
    div,
    each,
    entry,
    magnitude,
    mul,
    product,
    rank,
    real,
    select,
    sizes,
    sub,
    swapped,
)
from xlac.ops.linalg.matrices import COLUMNS, first_block, gathered, on_diagonal, over
from xlac_sdk.dtypes import DType


def _doubled(x: Numbers) -> Node:
    """Complex matrices (…, m, n) as real ones (…, 2 m, 2 n)."""
    rows, columns = sizes(x)
    batch, last = x[0].shape[:-2], rank(x)

    def pairs(a: Node, b: Node, axis: int, shape: tuple[int, ...]) -> Node:
        one = [build.reshape(n, (*n.shape[:axis], 1, *n.shape[axis:])) for n in (a, b)]
        return build.reshape(build.concat(one, axis), (*batch, *shape))

    top = pairs(x[0], build.apply1("neg", x[1]), last, (rows, 2 * columns))
    below = pairs(x[1], x[0], last, (rows, 2 * columns))
    return pairs(top, below, last - 1, (2 * rows, 2 * columns))


def _rows(x: Numbers) -> Node:
    """Complex matrices (…, m, n) as real ones (…, 2 m, n): a row of real parts, one of imaginary
    ones, and so on.
    """
    rows, columns = sizes(x)
    batch = x[0].shape[:-2]
    one = [build.reshape(p, (*batch, rows, 1, columns)) for p in x]
    return build.reshape(build.concat(one, rank(x) - 1), (*batch, 2 * rows, columns))


def _unpaired(x: Node) -> Numbers:
    """The complex matrices of those that `_rows` gives."""
    axis, (rows, columns) = x.type.rank - 1, x.shape[-2:]
    assert isinstance(rows, int)
    batch = x.shape[:-2]
    wide = build.reshape(x, (*batch, rows // 2, 2, columns))
    return tuple(
        build.reshape(build.cut(wide, axis, k, k + 1), (*batch, rows // 2, columns)) for k in (0, 1)
    )


def _cholesky(a: Node) -> Node:
    return build.apply1("cholesky", a)


def cholesky(a: Numbers, lower: bool, factor: Callable[[Node], Node] = _cholesky) -> Numbers:
    """The lower factor L with L L* = a, or the upper U with U* U = a, of positive definite
    Hermitian matrices, of which only that triangle is read, and the real part of the diagonal. NaN
    where they are not positive definite. `factor` gives the lower factor of real matrices.
    """
    if not lower:
        return adjoint(cholesky(adjoint(a), True, factor))
    a = a[0], build.select(on_diagonal(a[1].shape), 0.0, a[1])
    real, imaginary = _unpaired(_even_columns(factor(_doubled(a))))
    return real, build.select(on_diagonal(imaginary.shape), 0.0, imaginary)  # which rounding adds


def _even_columns(x: Node) -> Node:
    """Every other column: the first column of each pair that stands for one complex number."""
    size = x.shape[-1]
    assert isinstance(size, int)
    return build.cut(x, x.type.rank - 1, 0, size, 2)


def _solved(a: Node, b: Node, lower: bool, unit: bool) -> Node:
    return build.apply1("triangular_solve", a, b, lower=lower, unit=unit)


def triangular_solve(
    a: Numbers,
    b: Numbers,
    *,
    left: bool = True,
    lower: bool = True,
    unit: bool = False,
    of_real: Callable[[Node, Node, bool, bool], Node] = _solved,
) -> Numbers:
    """The X for which a X = b, or X a = b, for triangular matrices a. Rows of a and b are divided
    by the diagonal first, so the residual is below (2 n + 8) eps |a| |X|, element by element.
    `of_real` solves real systems, from their `lower` and `unit`.
    """
    if not left:
        turned = swapped(a), swapped(b)
        return swapped(triangular_solve(*turned, lower=not lower, unit=unit, of_real=of_real))
    if len(a) == 1:
        return (of_real(a[0], b[0], lower, unit),)
    if not unit:
        down = diagonal(a)
        a = div(a, back(down, a[0].shape, (rank(a) - 1,)))
        b = div(b, back(down, b[0].shape, (rank(a) - 1,)))
    # The real operation does not read the ones, but the 0 beside each of them.
    a = a[0], build.select(on_diagonal(a[1].shape), 0.0, a[1])
    return _unpaired(of_real(_doubled(a), _rows(b), lower, True))


def lu(a: Numbers) -> tuple[Numbers, Node, Node]:
    """As the operation `lu`: the packed factors, pivots and permutation. The pivot of a column is
    the number whose parts have the largest sum of absolute values, as LAPACK chooses it.
    """
    rows, columns = sizes(a)
    last = rank(a)
    k = rows if rows < columns else first_block(columns, COLUMNS)
    if k == columns:
        return _lu_by_columns(a)
    left, pivots, order = lu(cut(a, last - 1, 0, k))
    right = each(lambda x: gathered(x, order), cut(a, last - 1, k, columns))
    square = cut(left, last - 2, 0, k)
    top = triangular_solve(square, cut(right, last - 2, 0, k), unit=True)
    above = concat([square, top], last - 1)
    if k == rows:
        return above, pivots, order
    below = cut(left, last - 2, k, rows)
    rest = sub(cut(right, last - 2, k, rows), product(below, top))
    packed, others, inner = lu(rest)
    packed = concat([each(lambda x: gathered(x, inner), below), packed], last - 1)
    kept, moved = (build.cut(order, last - 2, *ends) for ends in ((0, k), (k, rows)))
    moved = build.apply1("take_along_axis", moved, inner, axis=last - 2)
    return (
        concat([above, packed], last - 2),
        build.concat([pivots, build.add(others, k)], last - 2),
        build.concat([kept, moved], last - 2),
    )


def _lu_by_columns(a: Numbers) -> tuple[Numbers, Node, Node]:
    """The factors, column by column: each step exchanges two rows, divides a column and subtracts
    an outer product.
    """
    rows, columns = sizes(a)
    last, batch, steps = rank(a), a[0].shape[:-2], min(rows, columns)
    order = build.iota((*batch, rows), last - 2, DType.I32)
    if not steps:
        return a, build.full(0, (*batch, 0), DType.I32), order
    count = len(a)

    def down(x: Node) -> Node:
        return build.back(x, (*batch, rows, columns), (last - 1,))

    def step(*carried: Node) -> list[Node]:
        a, order, number = carried[:count], carried[count], carried[count + 1]
        column = entry(a, last - 1, number)  # (…, m)
        line = build.iota(column[0].shape, last - 2)
        left = build.select(build.compare(line, "ge", number), magnitude(column), -1.0)
        pivot = build.apply1("argmax", left, axis=last - 2, keepdims=True, dtype=DType.I32)
        here, there = build.compare(line, "eq", number), build.compare(line, "eq", pivot)
        first = back(entry(a, last - 2, number), (*batch, 1, columns), (last - 2,))
        second = each(lambda x: gathered(x, pivot), a)  # the pivot row, (…, 1, n)
        wide_first, wide_second = (
            each(lambda x: build.broadcast_to(x, (*batch, rows, columns)), x)
            for x in (first, second)
        )
        exchanged = select(down(here), wide_second, select(down(there), wide_first, a))
        divisor = entry(second, last - 1, number)  # (…, 1)
        zero = build.compare(divisor[0], "eq", 0.0)
        for other in divisor[1:]:
            zero = build.apply1("and", zero, build.compare(other, "eq", 0.0))
        divisor = select(zero, real(1.0, divisor), divisor)
        moved = each(
            lambda x: build.broadcast_to(x, column[0].shape), entry(first, last - 1, number)
        )
        divided = each(lambda x: build.broadcast_to(x, column[0].shape), divisor)
        wide = each(down, div(select(there, moved, column), divided))
        place = build.iota(a[0].shape, last - 1)
        rest = sub(exchanged, mul(wide, wide_second))
        rest = select(build.compare(place, "gt", number), rest, exchanged)
        rest = select(build.compare(place, "eq", number), wide, rest)
        old = build.reshape(entry((order,), last - 2, number)[0], (*batch, 1))
        new = build.apply1("take_along_axis", order, pivot, axis=last - 2)
        lines = build.select(here, new, build.select(there, old, order))
        changed = select(down(build.compare(line, "gt", number)), rest, exchanged)
        return [*changed, lines, build.reshape(pivot, batch)]

    found = over(steps, step, (*a, order), ())
    pivots = build.transpose(pick(found, count + 1), [*range(1, last - 1), 0])
    return tuple(pick(found, n) for n in range(count)), pivots, pick(found, count)


def solved(packed: Numbers, order: Node, b: Numbers, form: str = "N") -> Numbers:
    """The X for which A X, A' X (form "T") or A* X ("H") is b, from the factors of A and the rows
    in their order.
    """
    if form == "N":
        rows = each(lambda part: gathered(part, order), b)
        half = triangular_solve(packed, rows, unit=True)
        return triangular_solve(packed, half, lower=False)
    turned = adjoint(packed) if form == "H" else swapped(packed)
    half = triangular_solve(turned, b, lower=True)
    found = triangular_solve(turned, half, lower=False, unit=True)
    back = build.cast(build.apply1("argsort", order, axis=order.type.rank - 1), DType.I32)
    return each(lambda part: gathered(part, back), found)
