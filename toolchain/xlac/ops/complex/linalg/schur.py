"""Schur's form of square matrices: a = Z T Z* with a unitary Z and a triangular T."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    diagonal,
    each,
    rank,
    real,
    scaled,
    select,
    sizes,
)
from xlac.ops.complex.linalg.qr_iteration import iterated
from xlac.ops.complex.linalg.reflections import hessenberg, turned
from xlac.ops.complex.linalg.standard_blocks import standardized
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class ScaledMatrices:
    """Matrices divided by their largest part, `factor` (…, 1, 1), 0 where that is not finite; and
    whether it is, (…).
    """

    a: Numbers
    factor: Node
    finite: Node


def of_moderate_size(a: Numbers) -> ScaledMatrices:
    """The matrices, scaled."""
    axes = (rank(a) - 2, rank(a) - 1)
    most = [build.reduce(build.apply1("abs", x), "max", axes, keepdims=True) for x in a]
    whole = most[0] if len(most) == 1 else build.maximum(*most)
    finite = build.apply1("isfinite", whole)
    safe = build.apply1("or", build.compare(whole, "eq", 0.0), build.apply1("not", finite))
    factor = build.select(safe, 1.0, whole)
    known = build.broadcast_to(finite, a[0].shape)
    small = select(known, each(lambda x: build.div(x, factor), a), real(0.0, a))
    return ScaledMatrices(small, factor, build.reshape(finite, a[0].shape[:-2]))


@dataclass(frozen=True, slots=True)
class SchurForm:
    """T and Z* of matrices; T of real ones has blocks of two rows, with equal numbers on the
    diagonal and numbers of opposite signs beside it, for conjugate eigenvalues. `found` (…) is
    false where the iteration did not end.
    """

    t: Numbers
    z: Numbers
    found: Node


def form(a: Numbers) -> SchurForm:
    """Schur's form of matrices of moderate size, without infinities and NaNs."""
    packed, taus = hessenberg(a)
    line, place = (build.iota(packed[0].shape, rank(a) - k) for k in (2, 1))
    inside = build.compare(line, "le", build.add(place, 1))
    h = select(inside, packed, real(0.0, packed))
    t, z, found = iterated(h, adjoint(turned(packed, taus)))
    if len(a) == 1:
        t, z = standardized(t[0], z[0])
    return SchurForm(t, z, found)


def where_found(known: Node, x: Numbers) -> Numbers:
    """Numbers, both of whose parts are NaN where a condition does not hold."""
    return each(lambda part: build.select(known, part, float("nan")), x)


def schur(a: Numbers) -> tuple[Numbers, Numbers, Node]:
    """T and Z of Schur's form, and whether they were found, (…): NaNs where they were not, for
    infinities and NaNs. |Z T Z* - a| is within 30 n eps |a|, |Z* Z - I| within 30 n eps, in the
    Frobenius norm.
    """
    rows, _ = sizes(a)
    if not rows:
        return a, a, build.full(True, a[0].shape[:-2], DType.BOOL)
    small = of_moderate_size(a)
    made = form(small.a)
    found = build.apply1("and", made.found, small.finite)
    known = build.back(found, a[0].shape, (rank(a) - 2, rank(a) - 1))
    whole = scaled(made.t, small.factor)
    t, z = (where_found(known, x) for x in (whole, adjoint(made.z)))
    return t, z, found


def eigenvalues(t: Numbers) -> Numbers:
    """The real and the imaginary parts (…, n) of the eigenvalues of a triangular T, or of a real
    one with blocks: of a conjugate pair the one above the real axis is first.
    """
    found = diagonal(t)
    return found if len(t) == 2 else (*found, beside(t[0]))


def beside(t: Node) -> Node:
    """The imaginary parts (…, n) of the eigenvalues of a real T: 0, or for the two rows of a block
    the root of the product of the numbers beside its diagonal, and its negative.
    """
    last, rows = t.type.rank, t.shape[-1]
    line, place = (build.iota(t.shape, last - k) for k in (2, 1))
    low, high = (
        build.select(build.compare(build.add(x, 1), "eq", y), build.apply1("abs", t), 0.0)
        for x, y in ((place, line), (line, place))
    )
    # both numbers at the first row of each block, then its second row
    below, above = (build.reduce(x, "add", axis) for x, axis in ((low, last - 2), (high, last - 1)))
    root = build.mul(build.sqrt(below), build.sqrt(above))
    assert isinstance(rows, int)
    first = build.like(0.0, build.cut(root, last - 2, 0, min(1, rows)))
    before = build.concat([first, build.cut(root, last - 2, 0, max(rows - 1, 0))], last - 2)
    return build.sub(root, before)
