"""Square matrices made bidiagonal by reflections from both sides, in panels, as LAPACK's labrd."""

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
    entry,
    product,
    rank,
    real,
    sizes,
    sub,
)
from xlac.ops.complex.linalg.reflections import Reflection, reflection
from xlac.ops.linalg.matrices import over
from xlac.ops.linalg.spectral.panels import (
    Reflections,
    after,
    dot,
    panel,
    stacked,
    weighted,
    with_row,
)


@dataclass(frozen=True, slots=True)
class BidiagonalForm:
    """U B V* of square matrices: the diagonal (…, n) of B, what is above it (…, n - 1), and the
    reflections whose products are U and V.
    """

    diagonal: Node
    above: Node
    left: Sequence[Reflections]
    right: Sequence[Reflections]


def bidiagonalized(a: Numbers) -> BidiagonalForm:
    """B, U and V of square matrices of at least one row."""
    size, last = sizes(a)[0], rank(a)
    diagonals, aboves, left, right, first = [], [], [], [], 0
    while first < size:
        width = panel(size - first, size)
        reduced = _last_panel if width == size - first else _panel
        found = reduced(a, width)
        diagonals.append(found.diagonal)
        aboves.append(found.above)
        left.append(Reflections(first, found.left, found.left_taus))
        right.append(Reflections(first, found.right, found.right_taus))
        a = found.rest
        first += width
    above = build.cut(build.concat(aboves, last - 2), last - 2, 0, size - 1)
    return BidiagonalForm(build.concat(diagonals, last - 2), above, left, right)


@dataclass(frozen=True, slots=True)
class _Panel:
    """Columns and rows of B, the vectors as rows, and what is left of a matrix after them."""

    diagonal: Node
    above: Node
    left: Numbers
    left_taus: Numbers
    right: Numbers
    right_taus: Numbers
    rest: Numbers


def _at(x: Numbers, number: Node) -> Node:
    """The real parts (…) of numbers (…, n) at one place."""
    return build.reshape(entry(x, rank(x) - 1, number)[0], x[0].shape[:-1])


def _less(x: Numbers, *changes: tuple[Numbers, Numbers]) -> Numbers:
    """x less the sums of rows, each with a factor: pairs of factors (…, k) and rows (…, k, n)."""
    for factors, rows in changes:
        x = sub(x, after(factors, rows))
    return x


def _panel(a: Numbers, width: int) -> _Panel:
    """The first columns and rows of B. The matrix is changed only at the end, by a product: until
    then it is a - V Y* - X U*, with vectors as rows of V, Y, X and U.
    """
    last, (size, _), count = rank(a), sizes(a), len(a)
    batch = a[0].shape[:-2]
    none = real(build.full(0.0, (*batch, width, size), a[0].type.dtype), a)

    def step(*nodes: Node) -> list[Node]:
        v, y, x, u = (nodes[n * count : (n + 1) * count] for n in range(4))
        number, a = nodes[4 * count], nodes[4 * count + 1 :]
        here = [conjugate(entry(p, last - 1, number)) for p in (y, u)]
        left = reflection(_less(entry(a, last - 1, number), (here[0], v), (here[1], x)), number)
        # before the sums, so that no copy is needed: the row of y is still 0
        v = with_row(v, number, left.vector)
        inner = [dot(conjugate(p), left.vector) for p in (v, x)]
        other = _less(conjugate(after(conjugate(left.vector), a)), (inner[0], y), (inner[1], u))
        y = with_row(y, number, weighted(left.tau, other))
        here = [conjugate(entry(p, last - 1, number)) for p in (v, x)]
        row = _less(conjugate(entry(a, last - 2, number)), (here[0], y), (here[1], u))
        place = build.add(number, 1)
        right = reflection(row, place)
        u = with_row(u, number, right.vector)
        inner = [dot(conjugate(p), right.vector) for p in (y, u)]
        other = _less(dot(a, right.vector), (inner[0], v), (inner[1], x))
        x = with_row(x, number, weighted(right.tau, other))
        return [*v, *y, *x, *u, *_numbers_of(left, right, number)]

    found = over(width, step, (*none, *none, *none, *none), a)
    v, y, x, u = (tuple(pick(found, n * count + k) for k in range(count)) for n in range(4))
    low, high = (
        numbers.concat([cut(p, last - 1, width, size) for p in pair], last - 2)
        for pair in ((v, x), (y, u))
    )
    rest = numbers.part(a, (width, size), (width, size))
    rest = sub(rest, product(numbers.swapped(low), conjugate(high)))
    return _of_loop(found, 4 * count, v, u, rest)


def _last_panel(a: Numbers, width: int) -> _Panel:
    """All of small matrices, made bidiagonal column by column."""
    last, count = rank(a), len(a)
    none = each(lambda p: build.like(0.0, p), a)

    def step(*nodes: Node) -> list[Node]:
        a, v, u = (nodes[n * count : (n + 1) * count] for n in range(3))
        number = nodes[3 * count]
        left = reflection(entry(a, last - 1, number), number)
        a = left.adjoint_times(a)
        right = reflection(conjugate(entry(a, last - 2, number)), build.add(number, 1))
        a = right.after(a)
        v, u = with_row(v, number, left.vector), with_row(u, number, right.vector)
        return [*a, *v, *u, *_numbers_of(left, right, number)]

    found = over(width, step, (*a, *none, *none), ())
    rest, v, u = (tuple(pick(found, n * count + k) for k in range(count)) for n in range(3))
    return _of_loop(found, 3 * count, v, u, rest)


def _numbers_of(left: Reflection, right: Reflection, number: Node) -> list[Node]:
    """Of a step: the numbers of B, and the taus."""
    batch = left.tau[0].shape[:-1]
    ends = _at(left.packed, number), _at(right.packed, build.add(number, 1))
    return [*ends, *(build.reshape(t, batch) for t in (*left.tau, *right.tau))]


def _of_loop(found: Node, first: int, v: Numbers, u: Numbers, rest: Numbers) -> _Panel:
    count = len(v)
    on, above, *taus = stacked(found, first, 2 + 2 * count, rank(v))
    return _Panel(on, above, v, tuple(taus[:count]), u, tuple(taus[count:]), rest)
