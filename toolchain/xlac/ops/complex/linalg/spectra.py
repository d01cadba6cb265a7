"""Eigenvalues of Hermitian matrices and singular values of complex ones, by a real tridiagonal or
bidiagonal matrix.
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
from xlac.ops.complex.linalg.reflections import bidiagonal
from xlac.ops.linalg import matrices
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.linalg.spectral import divide
from xlac.ops.linalg.spectral.tridiagonalize import tridiagonalized


def hermitian(a: Numbers, lower: bool) -> Numbers:
    """The Hermitian matrices of one triangle, whose diagonal is real."""
    name, k = ("tril", -1) if lower else ("triu", 1)
    inner = each(lambda x: build.apply1(name, x, k=k), a)
    whole = add(inner, adjoint(inner))
    return build.select(on_diagonal(a[0].shape), a[0], whole[0]), *whole[1:]


def _svd(a: Node) -> tuple[Node, ...]:
    return _several(build.apply("svd", a, full_matrices=False))


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
