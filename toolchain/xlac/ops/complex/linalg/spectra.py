"""Eigenvalues of symmetric and Hermitian matrices, and singular values, by a real tridiagonal or
bidiagonal matrix.
"""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    add,
    adjoint,
    as_pairs,
    concat,
    cut,
    each,
    of_pairs,
    product,
    rank,
    real,
    sizes,
)
from xlac.ops.linalg import matrices
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.linalg.spectral import divide, divide_bidiagonal
from xlac.ops.linalg.spectral.bidiagonalize import bidiagonalized
from xlac.ops.linalg.spectral.panels import turned
from xlac.ops.linalg.spectral.tridiagonalize import tridiagonalized


def hermitian(a: Numbers, lower: bool) -> Numbers:
    """The Hermitian matrices of one triangle, whose diagonal is real."""
    name, k = ("tril", -1) if lower else ("triu", 1)
    inner = each(lambda x: build.apply1(name, x, k=k), a)
    whole = add(inner, adjoint(inner))
    return build.select(on_diagonal(a[0].shape), a[0], whole[0]), *whole[1:]


def eigh(a: Numbers, lower: bool) -> tuple[Node, Numbers]:
    """Eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices, of which one
    triangle is read. NaN for infinities and NaNs. |a V - V w| is within 30 n eps |a|, four times
    that for complex matrices.
    """
    if sizes(a)[0] <= 1:
        line = build.reshape(a[0], a[0].shape[:-1])
        return line, real(build.like(1.0, a[0]), a)
    whole = hermitian(a, lower)
    scale = matrices.largest(whole)
    small = tridiagonalized(each(lambda x: build.div(x, scale), whole))
    values, z = divide.eigen(small.diagonal, small.beside)
    by = build.reshape(scale, (*a[0].shape[:-2], 1))
    vectors = small.turned(real(z, a))
    return build.mul(values, by), each(lambda x: matrices.only_finite(x, scale), vectors)


def svd(a: Numbers, full: bool) -> tuple[Numbers, Node, Numbers]:
    """U, S and V* with U S V* = a, singular values descending; U and V* square where `full`, else
    with min(m, n) columns and rows. NaN for infinities and NaNs.
    """
    rows, columns = sizes(a)
    if rows < columns:
        u, s, v = svd(adjoint(a), full)
        return adjoint(v), s, adjoint(u)
    last, batch = rank(a), a[0].shape[:-2]
    if not columns:
        eye = build.cast(on_diagonal((*batch, rows, rows if full else 0)), a[0].type.dtype)
        none = build.full(0.0, (*batch, 0), a[0].type.dtype)
        return real(eye, a), none, real(build.full(0.0, (*batch, 0, 0), none.type.dtype), a)
    scale = matrices.largest(a)
    small, base = each(lambda x: build.div(x, scale), a), None
    if rows > columns:
        base, triangular = _factors(small, full)
        small = cut(triangular, last - 2, 0, columns)
    form = bidiagonalized(small)
    left, s, right = divide_bidiagonal.singular(form.diagonal, form.above)
    u, v = turned(form.left, real(left, a)), turned(form.right, real(right, a))
    if base is not None:
        u = _extended(base, u)
    s = build.mul(s, build.reshape(scale, (*batch, 1)))
    known = build.reshape(scale, (*batch, 1))

    def finite(x: Numbers) -> Numbers:
        return each(lambda part: matrices.only_finite(part, scale), x)

    return finite(u), matrices.only_finite(s, known), finite(adjoint(v))


def _factors(a: Numbers, complete: bool) -> tuple[Numbers, Numbers]:
    """Q and R."""
    if len(a) == 1:
        found = build.apply("qr", a[0], complete=complete)
        assert isinstance(found, tuple)
        return found[:1], found[1:]
    found = build.apply("qr", as_pairs(a), complete=complete, complex=True)
    assert isinstance(found, tuple)
    return of_pairs(found[0]), of_pairs(found[1])


def _extended(base: Numbers, u: Numbers) -> Numbers:
    """The first columns of `base` times u, then the others as they are."""
    last, columns, count = rank(base), sizes(u)[0], sizes(base)[1]
    first = product(cut(base, last - 1, 0, columns), u)
    if count == columns:
        return first
    return concat([first, cut(base, last - 1, columns, count)], last - 1)
