"""Eigenvalues of Hermitian matrices and singular values of complex ones, by a real tridiagonal or
bidiagonal matrix and the real operations on it.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
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
from xlac.ops.complex.linalg.reflections import bidiagonal, hessenberg, turned
from xlac.ops.linalg.matrices import on_diagonal


def hermitian(a: Numbers, lower: bool) -> Numbers:
    """The Hermitian matrices of one triangle, whose diagonal is real."""
    name, k = ("tril", -1) if lower else ("triu", 1)
    inner = each(lambda x: build.apply1(name, x, k=k), a)
    whole = add(inner, adjoint(inner))
    return build.select(on_diagonal(a[0].shape), a[0], whole[0]), *whole[1:]


def _eigh(a: Node) -> tuple[Node, ...]:
    return _several(build.apply("eigh", a))


def _svd(a: Node) -> tuple[Node, ...]:
    return _several(build.apply("svd", a, full_matrices=False))


def eigh(
    a: Numbers, lower: bool, of_real: Callable[[Node], tuple[Node, ...]] = _eigh
) -> tuple[Node, Numbers]:
    """Eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices, of which one
    triangle is read. NaN for infinities and NaNs. |a V - V w| is within 60 n eps |a|. `of_real` is
    the same of real matrices.
    """
    packed, taus = hessenberg(hermitian(a, lower))
    line, place = (build.iota(packed[0].shape, rank(a) - k) for k in (2, 1))
    near = build.compare(build.sub(line, place), "le", 1)
    between = build.select(near, packed[0], 0.0)  # its lower triangle is tridiagonal
    values, z = of_real(between)
    return values, product(turned(packed, taus), real(z, a))


def svd(
    a: Numbers, full: bool, of_real: Callable[[Node], tuple[Node, ...]] = _svd
) -> tuple[Numbers, Node, Numbers]:
    """U, S and V* with U S V* = a, singular values descending; U and V* square where `full`, else
    with min(m, n) columns and rows. NaN for infinities and NaNs. `of_real` is the same of real
    square matrices.
    """
    rows, columns = sizes(a)
    if rows < columns:
        u, s, v = svd(adjoint(a), full, of_real)
        return adjoint(v), s, adjoint(u)
    last = rank(a)
    left, b, right = bidiagonal(a)
    top = build.cut(b, last - 2, 0, columns)
    x, s, y = of_real(top)
    inner = product(each(lambda q: build.cut(q, last - 1, 0, columns), left), real(x, a))
    if full and rows > columns:
        rest = each(lambda q: build.cut(q, last - 1, columns, rows), left)
        inner = concat([inner, rest], last - 1)
    return inner, s, product(real(y, a), adjoint(right))


def _several(results: Node | tuple[Node, ...]) -> tuple[Node, ...]:
    assert isinstance(results, tuple)
    return results
