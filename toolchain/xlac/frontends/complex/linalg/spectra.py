"""Eigenvalues of Hermitian matrices and singular values of complex ones, by a real tridiagonal or
bidiagonal matrix and the real operations on it.
"""

from __future__ import annotations

from xlac.frontends.complex.linalg.numbers import (
    Numbers,
    add,
    adjoint,
    concat,
    each,
    product,
    rank,
    real,
    sizes,
)
from xlac.frontends.complex.linalg.reflections import bidiagonal, hessenberg, turned
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.linalg.eigh import Eigh
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.linalg.svd import Svd


def hermitian(a: Numbers, lower: bool) -> Numbers:
    """The Hermitian matrices of one triangle, whose diagonal is real."""
    name, k = ("tril", -1) if lower else ("triu", 1)
    inner = each(lambda x: build.apply1(name, x, k=k), a)
    whole = add(inner, adjoint(inner))
    return build.select(on_diagonal(a[0].shape), a[0], whole[0]), *whole[1:]


def eigh(a: Numbers, lower: bool) -> tuple[Node, Numbers]:
    """Eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices, of which one
    triangle is read. NaN for infinities and NaNs. |a V - V w| is within 60 n eps |a|.
    """
    packed, taus = hessenberg(hermitian(a, lower))
    line, place = (build.iota(packed[0].shape, rank(a) - k) for k in (2, 1))
    near = build.compare(build.sub(line, place), "le", 1)
    between = build.select(near, packed[0], 0.0)  # its lower triangle is tridiagonal
    values, z = build.results(Node.of(Eigh(lower=True), between))
    return values, product(turned(packed, taus), real(z, a))


def svd(a: Numbers, full: bool) -> tuple[Numbers, Node, Numbers]:
    """U, S and V* with U S V* = a, singular values descending; U and V* square where `full`, else
    with min(m, n) columns and rows. NaN for infinities and NaNs.
    """
    rows, columns = sizes(a)
    if rows < columns:
        u, s, v = svd(adjoint(a), full)
        return adjoint(v), s, adjoint(u)
    last = rank(a)
    left, b, right = bidiagonal(a)
    top = build.cut(b, last - 2, 0, columns)
    x, s, y = build.results(Node.of(Svd(full_matrices=False), top))
    inner = product(each(lambda q: build.cut(q, last - 1, 0, columns), left), real(x, a))
    if full and rows > columns:
        rest = each(lambda q: build.cut(q, last - 1, columns, rows), left)
        inner = concat([inner, rest], last - 1)
    return inner, s, product(real(y, a), adjoint(right))
