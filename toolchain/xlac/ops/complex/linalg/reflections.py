"""Householder's reflections H = I - tau v v* of real and complex matrices, as LAPACK packs them."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    back,
    conjugate,
    cut,
    div,
    each,
    entry,
    mul,
    product,
    rank,
    real,
    scaled,
    select,
    sizes,
    sub,
    summed,
)
from xlac.ops.complex.linalg.systems import triangular_solve
from xlac.ops.linalg.matrices import on_diagonal, over


@dataclass(frozen=True, slots=True)
class Reflection:
    """The reflection whose adjoint makes a column (…, m), from one place on, a real number beta and
    zeros: `vector` is v, with 1 at that place and zeros before, `tau` is (…, 1), and `packed` the
    column with beta at that place and the rest of v after it.
    """

    vector: Numbers
    tau: Numbers
    packed: Numbers

    def adjoint_times(self, a: Numbers) -> Numbers:
        """H* a = a - tau* v (v* a)."""
        last = rank(a)
        wide = back(self.vector, a[0].shape, (last - 1,))
        tau = _like(conjugate(self.tau), a[0].shape[-1])
        inner = mul(summed(mul(conjugate(wide), a), last - 2), tau)
        return sub(a, mul(wide, back(inner, a[0].shape, (last - 2,))))

    def after(self, a: Numbers) -> Numbers:
        """a H = a - (a v) tau v*."""
        last = rank(a)
        wide = back(self.vector, a[0].shape, (last - 2,))
        inner = mul(summed(mul(a, wide), last - 1), _like(self.tau, a[0].shape[-2]))
        return sub(a, mul(back(inner, a[0].shape, (last - 1,)), conjugate(wide)))


def _like(tau: Numbers, size: Dim) -> Numbers:
    """(…, 1) as (…, size)."""
    return each(lambda x: build.broadcast_to(x, (*x.shape[:-1], size)), tau)


def reflection(column: Numbers, place: Node) -> Reflection:
    """The reflection of columns (…, m) from row `place` on, as LAPACK's larfg."""
    axis = rank(column) - 1
    line = build.iota(column[0].shape, axis)
    here, below = (build.compare(line, how, place) for how in ("eq", "gt"))
    nothing = real(0.0, column)
    left = select(build.compare(line, "ge", place), column, nothing)

    def most(parts: Numbers) -> Node:
        sizes = [build.reduce(build.apply1("abs", x), "max", axis, keepdims=True) for x in parts]
        return sizes[0] if len(sizes) == 1 else build.maximum(*sizes)

    # Nothing is to be reflected where the column is a real number and zeros.
    others = select(below, column, nothing)
    if len(column) == 2:
        others = others[0], left[1]
    flat = build.compare(most(others), "eq", 0.0)
    safe = build.select(flat, 1.0, most(left))
    left = each(lambda x: build.div(x, safe), left)
    square = [build.reduce(build.mul(x, x), "add", axis, keepdims=True) for x in left]
    total = square[0] if len(square) == 1 else build.add(*square)
    size = build.sqrt(build.select(flat, 1.0, total))
    alpha = each(
        lambda x: build.reduce(build.select(here, x, 0.0), "add", axis, keepdims=True), left
    )
    beta = build.select(build.compare(alpha[0], "lt", 0.0), size, build.apply1("neg", size))
    beta = build.select(flat, alpha[0], beta)
    gap = sub(real(beta, alpha), alpha)  # at least as long as beta, and of its sign
    tau = scaled(gap, build.div(1.0, build.select(flat, 1.0, beta)))
    divisor = select(flat, real(1.0, gap), each(lambda x: build.apply1("neg", x), gap))
    divisor = each(lambda x: build.broadcast_to(x, column[0].shape), divisor)
    v = select(below, div(left, divisor), nothing)
    scale = build.broadcast_to(build.mul(beta, safe), column[0].shape)
    packed = select(below, v, select(here, real(scale, column), column))
    return Reflection(select(here, real(1.0, v), v), tau, packed)


def _stacked(found: Node, first: int, count: int, last: int) -> Numbers:
    """Results of each step, (…) stacked in front, as (…, steps)."""
    order = [*range(1, last - 1), 0]
    return tuple(build.transpose(pick(found, first + n), order) for n in range(count))


def qr(a: Numbers) -> tuple[Numbers, Numbers]:
    """As LAPACK's geqrf: R on and above the diagonal, v below it, and taus (…, min(m, n))."""
    rows, columns = sizes(a)
    steps = min(rows, columns)
    return _reduced(a, steps, 0)


def hessenberg(a: Numbers) -> tuple[Numbers, Numbers]:
    """As LAPACK's gehrd: H with Q H Q* = a on and above the first subdiagonal, v below it, and
    taus (…, n - 1). Hermitian matrices become tridiagonal and real.
    """
    rows, _ = sizes(a)
    return _reduced(a, max(rows - 1, 0), 1)


def _reduced(a: Numbers, steps: int, shift: int) -> tuple[Numbers, Numbers]:
    """Column k is reflected from row k + shift on, for each of the first columns; with a shift
    of 1 the matrix is multiplied from the right, too.
    """
    last, batch = rank(a), a[0].shape[:-2]
    count = len(a)
    if not steps:
        empty = build.full(0.0, (*batch, 0), a[0].type.dtype)
        return a, real(empty, a)

    def step(*carried: Node) -> list[Node]:
        a, number = carried[:count], carried[count]
        found = reflection(entry(a, last - 1, number), build.add(number, shift))
        place = build.iota(a[0].shape, last - 1)
        later = build.compare(place, "gt", number)
        moved = select(later, found.adjoint_times(a), a)
        if shift:
            # Only columns after this one have numbers in v; the vectors before are kept.
            moved = select(later, found.after(moved), moved)
        packed = back(found.packed, a[0].shape, (last - 1,))
        moved = select(build.compare(place, "eq", number), packed, moved)
        return [*moved, *(build.reshape(x, batch) for x in found.tau)]

    found = over(steps, step, a, ())
    packed = tuple(pick(found, n) for n in range(count))
    return packed, _stacked(found, count, count, last)


def vectors(packed: Numbers, count: int) -> Numbers:
    """The first vectors as columns: 1 on the diagonal, 0 above."""
    low = each(lambda x: build.apply1("tril", x, k=-1), cut(packed, rank(packed) - 1, 0, count))
    return select(on_diagonal(low[0].shape), real(1.0, low), low)


def householder_product(packed: Numbers, taus: Numbers) -> Numbers:
    """As LAPACK's orgqr and ungqr, by the compact WY form: I - V (I + D N)⁻¹ D V*, with taus on the
    diagonal of D, and the part of V* V above its diagonal as N; its first columns.
    """
    last, (_, columns), count = rank(packed), sizes(packed), taus[0].shape[-1]
    assert isinstance(count, int)
    one = real(build.cast(on_diagonal(packed[0].shape), packed[0].type.dtype), packed)
    if not count or not columns:
        return one
    v = vectors(packed, count)

    def by_taus(x: Numbers) -> Numbers:
        return mul(back(taus, x[0].shape, (last - 1,)), x)

    between = by_taus(product(adjoint(v), v))
    right = by_taus(adjoint(cut(v, last - 2, 0, columns)))
    return sub(one, product(v, triangular_solve(between, right, lower=False, unit=True)))


def turned(packed: Numbers, taus: Numbers) -> Numbers:
    """The Q (…, n, n) of `hessenberg`."""
    last, (rows, _) = rank(packed), sizes(packed)
    one = build.cast(on_diagonal(packed[0].shape), packed[0].type.dtype)
    whole = real(one, packed)
    if rows < 2:
        return whole
    low = cut(cut(packed, last - 2, 1, rows), last - 1, 0, rows - 1)
    inner = householder_product(low, taus)
    first = cut(whole, last - 2, 0, 1)
    below = tuple(
        build.concat([build.cut(w, last - 1, 0, 1), q], last - 1)
        for w, q in zip(cut(whole, last - 2, 1, rows), inner, strict=True)
    )
    return tuple(build.concat([f, b], last - 2) for f, b in zip(first, below, strict=True))
