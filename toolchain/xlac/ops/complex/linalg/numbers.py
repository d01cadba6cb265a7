"""Matrices of real or complex numbers as one node or two: arithmetic that is the same for both.

The last two axes are the matrices, all before them a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex import arithmetic
from xlac.ops.linalg import matrices

Numbers = tuple[Node, ...]
"""The real part, and the imaginary part of complex numbers, of one shape."""


def of_pairs(x: Node) -> Numbers:
    """Complex numbers of their parts, the last axis of x."""
    axis = x.type.rank - 1
    return tuple(build.reshape(build.cut(x, axis, k, k + 1), x.shape[:-1]) for k in (0, 1))


def as_pairs(x: Numbers) -> Node:
    """Complex numbers as one node, with a last axis of 2 for the parts."""
    wide = [build.reshape(part, (*part.shape, 1)) for part in x]
    return build.concat(wide, rank(x))


def each(function: Callable[[Node], Node], x: Numbers) -> Numbers:
    """A function of the parts, such as one that moves elements."""
    return tuple(function(part) for part in x)


def add(x: Numbers, y: Numbers) -> Numbers:
    """x + y."""
    return tuple(build.add(a, b) for a, b in zip(x, y, strict=True))


def sub(x: Numbers, y: Numbers) -> Numbers:
    """x - y."""
    return tuple(build.sub(a, b) for a, b in zip(x, y, strict=True))


def bilinear(product: Callable[[Node, Node], Node], x: Numbers, y: Numbers) -> Numbers:
    """A product of numbers from one of real numbers."""
    if len(x) == 1:
        return (product(x[0], y[0]),)
    (a, b), (c, d) = x, y
    real = build.sub(product(a, c), product(b, d))
    return real, build.add(product(a, d), product(b, c))


def mul(x: Numbers, y: Numbers) -> Numbers:
    """x y, element by element."""
    return bilinear(build.mul, x, y)


def product(x: Numbers, y: Numbers) -> Numbers:
    """The products of matrices."""
    return bilinear(matrices.product, x, y)


def div(x: Numbers, y: Numbers) -> Numbers:
    """x / y, element by element."""
    if len(x) == 1:
        return (build.div(x[0], y[0]),)
    return arithmetic.div((x[0], x[1]), (y[0], y[1]))


def negated(x: Numbers) -> Numbers:
    """-x."""
    return each(lambda part: build.apply1("neg", part), x)


def magnitude(x: Numbers) -> Node:
    """The absolute value, or the sum of those of the parts, by which LAPACK compares."""
    total = build.apply1("abs", x[0])
    for other in x[1:]:
        total = build.add(total, build.apply1("abs", other))
    return total


def scaled(x: Numbers, by: Node) -> Numbers:
    """Numbers times real numbers."""
    return each(lambda part: build.mul(part, by), x)


def conjugate(x: Numbers) -> Numbers:
    """The complex conjugates."""
    return x[0], *(build.apply1("neg", part) for part in x[1:])


def swapped(x: Numbers) -> Numbers:
    """The transposed matrices."""
    return each(matrices.swapped, x)


def adjoint(x: Numbers) -> Numbers:
    """The conjugate transposes."""
    return conjugate(swapped(x))


def select(condition: Node, x: Numbers, y: Numbers) -> Numbers:
    """x where the condition holds, y elsewhere."""
    return tuple(build.select(condition, a, b) for a, b in zip(x, y, strict=True))


def real(value: Node | float, like: Numbers) -> Numbers:
    """Real numbers, as numbers of the kind of `like`, whose shape they have or take."""
    first = value if isinstance(value, Node) else build.like(value, like[0])
    return first, *(build.like(0.0, first) for _ in like[1:])


def cut(x: Numbers, axis: int, start: int, stop: int) -> Numbers:
    """A range of an axis."""
    return each(lambda part: build.cut(part, axis, start, stop), x)


def part(x: Numbers, rows: tuple[int, int], columns: tuple[int, int]) -> Numbers:
    """The submatrix of rows and columns within half-open ranges."""
    return each(lambda node: matrices.part(node, rows, columns), x)


def concat(xs: Sequence[Numbers], axis: int) -> Numbers:
    """Numbers one after the other along an axis."""
    return tuple(build.concat(list(parts), axis) for parts in zip(*xs, strict=True))


def entry(x: Numbers, axis: int, number: Node) -> Numbers:
    """The slices at one position of an axis, which is removed."""
    return each(lambda part: matrices.entry(part, axis, number), x)


def back(x: Numbers, shape: Shape, axes: Sequence[int]) -> Numbers:
    """Numbers broadcast to a shape that has `axes` more."""
    return each(lambda part: build.back(part, shape, axes), x)


def summed(x: Numbers, axis: int) -> Numbers:
    """Sums along an axis, which is removed."""
    return each(lambda part: build.reduce(part, "add", axis), x)


def multiplied(x: Numbers, axis: int) -> Numbers:
    """The product of all numbers along an axis, by pairs; the axis is kept with a size of 1."""
    size, shape = x[0].shape[axis], list(x[0].shape)
    assert isinstance(size, int)
    shape[axis] = 1
    if not size:
        return real(build.full(1.0, tuple(shape), x[0].type.dtype), x)
    while size > 1:
        half = size // 2
        first, second, rest = (
            cut(x, axis, *ends) for ends in ((0, half), (half, 2 * half), (2 * half, size))
        )
        x = mul(first, second)
        if size % 2:
            x = concat([x, rest], axis)
        size = half + size % 2
    return x


def diagonal(x: Numbers) -> Numbers:
    """The diagonals of square matrices."""
    return each(matrices.diagonal, x)


def rank(x: Numbers) -> int:
    """The number of axes."""
    return x[0].type.rank


def sizes(x: Numbers) -> tuple[int, int]:
    """Rows and columns, which must be known. Raises ShapeError."""
    return matrices.check_matrix("linear algebra", x[0].type)
