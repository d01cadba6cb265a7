"""The ends of the QR iteration: which numbers below the diagonal count as 0, and which blocks that
leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import Numbers, cut, each, magnitude, real, select, sub
from xlac.ops.tensor.scatter import Scatter


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """The first and the last row of the block that a matrix works on, (…), i64. A matrix that is
    finished has the number of its rows as the first and -1 as the last.
    """

    first: Node
    last: Node

    def active(self) -> Node:
        """Whether a matrix is not finished."""
        return build.compare(self.last, "ge", 0)


def reflected(h: Numbers) -> int:
    """The rows of a reflection."""
    return 3 if len(h) == 1 else 2


def _line(x: Numbers, row: int, column: int, count: int) -> Numbers:
    """`count` numbers of matrices from a place on, along a parallel of the diagonal: (…, count)."""
    (*batch, size), first = x[0].shape[:-1], row
    assert isinstance(size, int)
    start = first * size + column

    def line(part: Node) -> Node:
        flat = build.reshape(part, (*batch, size * size))
        return build.cut(flat, len(batch), start, start + (count - 1) * (size + 1) + 1, size + 1)

    return each(line, x)


def lines(h: Numbers, size: int) -> tuple[Numbers, Numbers, Numbers]:
    """The diagonal, the numbers below it and those above it."""
    return _line(h, 0, 0, size), _line(h, 1, 0, size - 1), _line(h, 0, 1, size - 1)


def deflated(h: Numbers, size: int) -> tuple[Numbers, OpenBlock]:
    """The matrices with what is small below the diagonal set to 0, and their next blocks. Small is
    what Ahues and Tisseur call so (LAPACK Working Note 122).
    """
    d, below, above = lines(h, size)
    small = _small(magnitude(below), magnitude(above), d, size)
    below = select(small, real(0.0, below), below)
    return _with_below(h, below), lowest_blocks(build.apply1("not", small), size, reflected(h))


def _with_below(h: Numbers, below: Numbers) -> Numbers:
    """The matrices with other numbers (…, n - 1) below the diagonal; written alone, as there is a
    call for each sweep.
    """
    *batch, height, width = h[0].shape
    count = below[0].shape[-1]
    assert isinstance(width, int)
    line = build.add(build.mul(build.iota((count, 1), 0), width + 1), width)
    op = Scatter((0,), (1,), (), (), (1,), 1, "assign", unique=True)
    many = volume(tuple(batch))

    def one(x: Node, new: Node) -> Node:
        flat = build.reshape(x, (many, height * width))
        written = Node.of(op, flat, line, build.reshape(new, (many, count)))
        return build.reshape(written, x.shape)

    return tuple(map(one, h, below))


def _small(below: Node, above: Node, d: Numbers, size: int) -> Node:
    """Whether numbers below the diagonal are so small that they count as 0."""
    info, axis = np.finfo(below.type.dtype.numpy), below.type.rank - 1
    eps, least = float(info.eps), float(info.tiny) * size / float(info.eps)
    upper, lower = (cut(d, axis, k, size - 1 + k) for k in (0, 1))
    gap = magnitude(sub(upper, lower))
    beside = build.add(magnitude(upper), magnitude(lower))
    low = [*[0] * axis, 1]
    around = build.pad(below, 0.0, low, low)
    around = build.add(build.cut(around, axis, 0, size - 1), build.cut(around, axis, 2, size + 1))
    beside = build.select(build.compare(beside, "eq", 0.0), around, beside)
    large, little = build.maximum(below, above), build.minimum(below, above)
    own = magnitude(lower)
    most, other = build.maximum(own, gap), build.minimum(own, gap)
    total = build.add(large, most)
    total = build.select(build.compare(total, "eq", 0.0), 1.0, total)
    product = build.mul(little, build.div(large, total))
    bound = build.maximum(build.mul(build.mul(other, build.div(most, total)), eps), least)
    known = build.apply1(
        "and",
        build.compare(below, "le", build.mul(beside, eps)),
        build.compare(product, "le", bound),
    )
    return build.apply1("or", known, build.compare(below, "le", least))


def lowest_blocks(left: Node, size: int, width: int) -> OpenBlock:
    """The lowest blocks of at least `width` rows, where `left` (…, n - 1) says which numbers below
    the diagonal are not 0.
    """
    axis = left.type.rank - 1
    long = left
    for k in range(1, width - 1):
        both = (build.cut(left, axis, n, size - width + 1 + n) for n in (0, k))
        long = build.apply1("and", *both)
    number = build.iota(long.shape, axis)
    last = build.reduce(build.select(long, build.add(number, width - 1), -1), "max", axis)
    ends = build.add(build.iota(left.shape, axis), 1)
    within = build.compare(ends, "lt", build.back(last, left.shape, (axis,)))
    starts = build.apply1("and", build.apply1("not", left), within)
    first = build.reduce(build.select(starts, ends, 0), "max", axis)
    return OpenBlock(build.select(build.compare(last, "lt", 0), size, first), last)
