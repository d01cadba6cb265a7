"""Eigenvalues and eigenvectors of square matrices that need not be symmetric."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    conjugate,
    diagonal,
    div,
    each,
    entry,
    magnitude,
    mul,
    product,
    rank,
    real,
    scaled,
    select,
    sizes,
    sub,
    swapped,
)
from xlac.ops.complex.linalg.schur import beside, form, of_moderate_size, where_found
from xlac.ops.complex.parts import hypot
from xlac.ops.linalg.matrices import on_diagonal, over, written
from xlac_sdk.dtypes import DType


def eig(a: Numbers) -> tuple[Numbers, Numbers, Numbers, Node]:
    """Eigenvalues (…, n), the left and the right eigenvectors as columns, all complex, with u* a =
    w u* and a v = w v, and whether they were found, (…).

    Each vector has length 1, and its largest number is positive. Values of real matrices, and their
    vectors, come in conjugate pairs, of which the one above the real axis is first. NaNs for
    infinities and NaNs, and where the iteration did not end. |a v - w v| is within 30 n eps |a|, in
    the norms of Euclid and Frobenius.
    """
    rows, _ = sizes(a)
    if not rows:
        whole = a[0], a[0]
        none = build.reshape(a[0], a[0].shape[:-1])
        return (none, none), whole, whole, build.full(True, a[0].shape[:-2], DType.BOOL)
    small = of_moderate_size(a)
    made = form(small.a)
    found = build.apply1("and", made.found, small.finite)
    imaginary = beside(made.t[0]) if len(a) == 1 else None
    t, z = _complex_form(made.t, made.z)
    values = diagonal(t)
    if imaginary is not None:
        values = diagonal(made.t)[0], imaginary
    flipped = each(lambda x: _reversed(x), adjoint(t))
    left = each(lambda x: _reversed(x), _of_triangular(flipped))
    vectors = [product(adjoint(z), x) for x in (left, _of_triangular(t))]
    if imaginary is not None:
        vectors = [_paired(x, imaginary) for x in vectors]
    known = build.back(found, a[0].shape, (rank(a) - 2, rank(a) - 1))
    u, v = (where_found(known, x) for x in map(_normalized, vectors))
    scale = build.reshape(small.factor, (*a[0].shape[:-2], 1))
    values = scaled(values, scale)
    known = build.back(found, values[0].shape, (rank(a) - 2,))
    return where_found(known, values), u, v, found


def _reversed(x: Node) -> Node:
    """Matrices with rows and columns in the opposite order."""
    return build.apply1("flip", x, axis=(x.type.rank - 2, x.type.rank - 1))


def _complex_form(t: Numbers, z: Numbers) -> tuple[Numbers, Numbers]:
    """The triangular T and Z* of complex numbers. For a block (a b; c a) of a real T the columns
    (p, i q) and (i q, p) are unitary and make it triangular: p² is |b|, and q² is |c|, divided by
    |b| + |c|, and p has the sign of b.
    """
    if len(t) == 2:
        return t, z
    last, nothing = rank(t), build.like(0.0, t[0])
    line, place = (build.iota(t[0].shape, last - k) for k in (2, 1))
    low = build.select(build.compare(build.add(place, 1), "eq", line), t[0], nothing)
    high = build.select(build.compare(build.add(line, 1), "eq", place), t[0], nothing)
    below = build.apply1("abs", build.add(low, swapped((low,))[0]))
    within = build.compare(below, "gt", 0.0)
    above = build.select(within, build.add(high, swapped((high,))[0]), 0.0)
    total = build.select(within, build.add(build.apply1("abs", above), below), 1.0)
    p, q = (build.sqrt(build.div(build.apply1("abs", x), total)) for x in (above, below))
    p = build.select(build.compare(above, "lt", 0.0), build.apply1("neg", p), p)
    alone = build.apply1("not", build.reduce(within, "or", last - 1))
    own = build.select(alone, 1.0, build.reduce(p, "add", last - 1))
    own = build.back(own, t[0].shape, (last - 1,))
    turn = build.select(on_diagonal(t[0].shape), own, 0.0), q
    inner = product(adjoint(turn), product((t[0], nothing), turn))
    upper = each(lambda x: build.apply1("triu", x), inner)
    return upper, product(adjoint(turn), (z[0], build.like(0.0, z[0])))


def _of_triangular(t: Numbers) -> Numbers:
    """Eigenvectors, as columns, of triangular matrices of moderate size, by back substitution for
    all of them at once. A column is scaled down where its next number would exceed 1, so that none
    overflows, also where eigenvalues are equal.
    """
    (size, _), last, shape = sizes(t), rank(t), t[0].shape
    most = build.reduce(magnitude(t), "max", (last - 2, last - 1))
    info = np.finfo(t[0].type.dtype.numpy)
    least = build.maximum(build.mul(most, float(info.eps)), float(info.tiny) / float(info.eps))
    least = build.back(least, shape[:-1], (last - 2,))
    place, values = build.iota(shape[:-1], last - 2), diagonal(t)

    def step(*carried: Node) -> list[Node]:
        x, number = carried[:2], carried[2]
        t, values, least = carried[3:5], carried[5:7], carried[7]
        row = entry(t, last - 2, number)
        own = entry(row, last - 2, number)
        later = build.compare(place, "gt", number)
        row = select(later, row, real(0.0, row))
        row = each(lambda part: build.reshape(part, (*shape[:-2], 1, size)), row)
        total = each(lambda part: build.reshape(part, shape[:-1]), product(row, x))
        gap = sub(each(lambda part: build.back(part, shape[:-1], (last - 2,)), own), values)
        gap = select(build.compare(magnitude(gap), "lt", least), real(least, gap), gap)
        sum_size, gap_size = magnitude(total), magnitude(gap)
        large = build.apply1("and", later, build.compare(sum_size, "gt", gap_size))
        factor = build.select(large, build.div(gap_size, build.select(large, sum_size, 1.0)), 1.0)
        value = each(lambda part: build.apply1("neg", part), div(scaled(total, factor), gap))
        one = build.select(build.compare(place, "eq", number), build.like(1.0, factor), 0.0)
        value = select(later, value, real(one, value))
        x = scaled(x, build.back(factor, shape, (last - 2,)))
        return [written(part, number, new) for part, new in zip(x, value, strict=True)]

    first = each(lambda part: build.like(0.0, part), t)
    found = over(size, step, first, (*t, *values, least), reverse=True)
    return pick(found, 0), pick(found, 1)


def _paired(x: Numbers, imaginary: Node) -> Numbers:
    """Columns for eigenvalues with these imaginary parts: real, or pairs of conjugates of which
    the first is given.
    """
    last = rank(x)
    size = x[0].shape[-1]
    assert isinstance(size, int)
    before = each(
        lambda part: build.concat(
            [build.cut(part, last - 1, 0, 1), build.cut(part, last - 1, 0, size - 1)], last - 1
        ),
        x,
    )
    beside = build.back(imaginary, x[0].shape, (last - 2,))
    second = build.compare(beside, "lt", 0.0)
    plain = x[0], build.select(build.compare(beside, "eq", 0.0), 0.0, x[1])
    return select(second, conjugate(before), plain)


def _normalized(x: Numbers) -> Numbers:
    """Columns of length 1 whose largest number, the first of several, is positive."""
    last, shape = rank(x), x[0].shape
    parts = [build.reduce(build.apply1("abs", p), "max", last - 2, keepdims=True) for p in x]
    most = build.maximum(*parts)
    most = build.select(build.compare(most, "eq", 0.0), 1.0, most)
    x = each(lambda part: build.div(part, most), x)
    square = build.add(*(build.mul(part, part) for part in x))
    length = build.sqrt(build.reduce(square, "add", last - 2, keepdims=True))
    place = build.apply1("argmax", square, axis=last - 2, keepdims=True, dtype=DType.I64)
    here = build.compare(build.iota(shape, last - 2), "eq", place)
    large = tuple(
        build.reduce(build.select(here, part, 0.0), "add", last - 2, keepdims=True) for part in x
    )
    turn = each(lambda part: build.div(part, build.mul(hypot(*large), length)), conjugate(large))
    made = mul(x, each(lambda part: build.broadcast_to(part, shape), turn))
    return made[0], build.select(here, 0.0, made[1])
