"""Hermitian matrices made tridiagonal by reflections, in panels of columns, as LAPACK's latrd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg import numbers
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    add,
    conjugate,
    cut,
    each,
    entry,
    mul,
    product,
    rank,
    real,
    scaled,
    sizes,
    sub,
)
from xlac.ops.complex.linalg.reflections import reflection
from xlac.ops.linalg.matrices import over
from xlac.ops.linalg.spectral.panels import (
    Reflections,
    after,
    dot,
    panel,
    stacked,
    turned,
    weighted,
    with_row,
)


@dataclass(frozen=True, slots=True)
class TridiagonalForm:
    """Q T Q* of Hermitian matrices: the diagonal (…, n) of T, what is beside it (…, n - 1), and
    Q's reflections.
    """

    diagonal: Node
    beside: Node
    reflections: Sequence[Reflections]

    def turned(self, a: Numbers) -> Numbers:
        """Q a."""
        return turned(self.reflections, a)


def tridiagonalized(a: Numbers) -> TridiagonalForm:
    """T and Q of Hermitian matrices, both triangles of which are given."""
    size, last = sizes(a)[0], rank(a)
    diagonals, besides, parts, first = [], [], [], 0
    while first < size:
        width = panel(size - first, size)
        reduced = _last_panel if width == size - first else _panel
        diagonal, beside, vectors, taus, a = reduced(a, width)
        diagonals.append(diagonal)
        besides.append(beside)
        parts.append(Reflections(first, vectors, taus))
        first += width
    if not size:
        return TridiagonalForm(numbers.diagonal(a)[0], numbers.diagonal(a)[0], ())
    beside = build.cut(build.concat(besides, last - 2), last - 2, 0, size - 1)
    return TridiagonalForm(build.concat(diagonals, last - 2), beside, parts)


Panel = tuple[Node, Node, Numbers, Numbers, Numbers]


def _half_of_change(v: Numbers, product_with_v: Numbers, tau: Numbers) -> Numbers:
    """The w for which H* A H = A - v w* - w v*, from A v."""
    axis = rank(v) - 1
    x = weighted(tau, product_with_v)
    inner = each(lambda p: build.reduce(p, "add", axis, keepdims=True), mul(conjugate(v), x))
    share = scaled(mul(conjugate(tau), inner), build.like(0.5, tau[0]))
    return sub(x, weighted(share, v))


def _columns(number: Node, column: Numbers) -> tuple[Node, Node, Numbers, Numbers]:
    """Of a column: the numbers on and below the diagonal of T; and v and tau (…, 1)."""
    axis = rank(column) - 1
    batch = column[0].shape[:-1]
    on = build.reshape(entry(column, axis, number)[0], batch)
    place = build.add(number, 1)
    found = reflection(column, place)
    below = build.reshape(entry(found.packed, axis, place)[0], batch)
    return on, below, found.vector, found.tau


def _panel(a: Numbers, width: int) -> Panel:
    """The first columns of a, made tridiagonal, and the rest of a after it. A is changed only at
    the end, by a product: until then it is a - V W* - W V*, with vectors as rows of V and W.
    """
    last, (size, _), count = rank(a), sizes(a), len(a)
    batch = a[0].shape[:-2]
    none = real(build.full(0.0, (*batch, width, size), a[0].type.dtype), a)

    def step(*nodes: Node) -> list[Node]:
        v, w = nodes[:count], nodes[count : 2 * count]
        number, a = nodes[2 * count], nodes[2 * count + 1 :]
        column = conjugate(entry(a, last - 2, number))  # the row of a Hermitian matrix
        here = [conjugate(entry(x, last - 1, number)) for x in (w, v)]
        column = sub(column, add(after(here[0], v), after(here[1], w)))
        on, below, vector, tau = _columns(number, column)
        # before the sums, so that no copy of v is needed: the row of w is still 0
        v = with_row(v, number, vector)
        inner = [dot(conjugate(x), vector) for x in (w, v)]
        change = add(after(inner[0], v), after(inner[1], w))
        other = _half_of_change(vector, sub(dot(a, vector), change), tau)
        w = with_row(w, number, other)
        return [*v, *w, on, below, *(build.reshape(t, batch) for t in tau)]

    found = over(width, step, (*none, *none), a)
    v, w = (tuple(pick(found, n * count + k) for k in range(count)) for n in (0, 1))
    on, below, *taus = stacked(found, 2 * count, 2 + count, last)
    low, other = (cut(x, last - 1, width, size) for x in (v, w))
    left = numbers.concat([low, other], last - 2)
    right = conjugate(numbers.concat([other, low], last - 2))
    rest = numbers.part(a, (width, size), (width, size))
    rest = sub(rest, product(numbers.swapped(left), right))
    return on, below, v, tuple(taus), rest


def _last_panel(a: Numbers, width: int) -> Panel:
    """All of small matrices, made tridiagonal column by column."""
    last, count, batch = rank(a), len(a), a[0].shape[:-2]
    none = each(lambda p: build.like(0.0, p), a)

    def step(*nodes: Node) -> list[Node]:
        a, v, number = nodes[:count], nodes[count : 2 * count], nodes[2 * count]
        on, below, vector, tau = _columns(number, conjugate(entry(a, last - 2, number)))
        other = _half_of_change(vector, dot(a, vector), tau)
        across, down = (
            [numbers.back(x, a[0].shape, (axis,)) for x in (vector, other)]
            for axis in (last - 2, last - 1)
        )
        change = add(mul(down[0], conjugate(across[1])), mul(down[1], conjugate(across[0])))
        v = with_row(v, number, vector)
        return [*sub(a, change), *v, on, below, *(build.reshape(t, batch) for t in tau)]

    found = over(width, step, (*a, *none), ())
    v = tuple(pick(found, count + k) for k in range(count))
    on, below, *taus = stacked(found, 2 * count, 2 + count, last)
    return on, below, v, tuple(taus), a
