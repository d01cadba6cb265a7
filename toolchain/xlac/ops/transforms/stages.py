"""The discrete Fourier transform of lines of many elements, in stages (Stockham).

Lines are tensors (lines, n, columns): the transformed axis is the one in the middle. After some
stages whose radices have the product l, there are for each of n / l starts the transform of the
elements n / l apart, as (lines, n / l, 2, l, columns), real and imaginary parts apart; the next
stage of radix r makes one of r of these, rotated. Elements never have to be brought into another
order, and the innermost axes are long wherever something is computed. The first stage of lines
without columns is a product with a small matrix, since its innermost axis has one element only.

A stage of a prime radix that is large is a product with the transform's matrix, and of one that is
larger a convolution, computed by transforms of a longer size (Bluestein). An element's error grows
with the number of stages: with log n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, normal_axis
from xlac.ops import build
from xlac.ops.transforms.butterflies import points
from xlac.ops.transforms.complex_parts import (
    Number,
    each,
    given,
    multiplied,
    scaled,
    shape_of,
    total,
    whole,
)
from xlac.ops.transforms.radices import COLUMNS, PRIME, first_radix, is_large, radices, smooth

TABLE = 1 << 14  # rotations stored in one table; more are computed as products of two


@dataclass(frozen=True)
class DftForm:
    """The direction of a transform, and the scale of its results."""

    inverse: bool
    share: float = 1.0

    def angles(self, turns: Array, length: int) -> Array:
        """Angles of `turns` (integers) steps around a circle of `length` steps, reduced before
        rounding.
        """
        return np.mod(turns, length) * ((2 if self.inverse else -2) * np.pi / length)


def transformed(x: Number, way: DftForm) -> Number:
    """The transforms along axis 1 of complex numbers given as parts (lines, n, columns)."""
    lines, size, columns = shape_of(x)
    assert isinstance(size, int)
    if size == 1:
        return scaled(x, way.share)
    if columns != 1 and not (isinstance(columns, int) and columns >= COLUMNS):
        turned = transformed(each(x, _columns_to_lines), way)
        return each(turned, lambda p: _lines_to_columns(p, lines, columns))
    first = first_radix(size) if columns == 1 else 1
    if first == size or is_large(size):
        return _in_one(x, way)
    if first > 1:
        x, way = _unpacked(_first(x, first, way)), DftForm(way.inverse)
    else:
        x = each(x, lambda part: build.reshape(part, (lines, size, 1, 1, columns)))
    *others, last = radices(size // first)
    for radix in others:
        x = _unpacked(_packed(_stage(x, radix, DftForm(way.inverse))))
    return each(_stage(x, last, way), lambda part: build.reshape(part, (lines, size, columns)))


# ---- stages --------------------------------------------------------------------------------------


def _stage(x: Number, radix: int, way: DftForm) -> Number:
    """One stage: of transforms of l elements each, (lines, radix m, 1, l, columns), those of radix
    times as many, (lines, m, radix, l, columns).
    """
    lines, starts, _, done, columns = shape_of(x)
    assert isinstance(starts, int) and isinstance(done, int)
    rest = starts // radix
    if is_large(radix):
        x = each(x, lambda part: build.reshape(part, (lines, radix, rest, done, columns)))
        x = _rotated(x, np.arange(radix)[:, None], radix * done, way)
        shape = (lines * rest, radix, done * columns)
        x = each(x, lambda p: build.reshape(build.transpose(p, (0, 2, 1, 3, 4)), shape))
        x = _in_one(x, way)
        return each(x, lambda part: build.reshape(part, (lines, rest, radix, done, columns)))

    starts_of = [(p * rest, (p + 1) * rest) for p in range(radix)]
    numbers = [each(x, lambda part, s=s: build.cut(part, 1, *s)) for s in starts_of]  # type: ignore[misc]
    rotated = [_rotated(n, np.array(p), radix * done, way) for p, n in enumerate(numbers)]
    return _joined([scaled(number, way.share) for number in points(rotated, way.inverse)])


def _rotated(x: Number, p: Array, length: int, way: DftForm) -> Number:
    """Elements k of (…, l, columns) rotated by p k steps of `length`, p being one integer or as
    many as the axes before.

    A rotation by k = a s + b steps is one by a s and one by b: two small tables instead of one as
    large as the tensor.
    """
    *before, done, columns = shape_of(x)
    assert isinstance(done, int)
    if done == 1 or not p.any():
        return x
    inner = done
    if length > TABLE:
        inner = max(n for n in range(1, math.isqrt(done) + 1) if done % n == 0)
    x = each(x, lambda part: build.reshape(part, (*before, done // inner, inner, columns)))
    for k in (np.arange(inner)[:, None], np.arange(0, done, inner)[:, None, None]):
        if k.any():
            x = multiplied(x, np.exp(1j * way.angles(p[..., None, None, None] * k, length)))
    return each(x, lambda part: build.reshape(part, (*before, done, columns)))


def _first(x: Number, radix: int, way: DftForm) -> Node:
    """The first stage of lines without columns as products with a small matrix: (lines, n / radix,
    2, radix, 1).
    """
    lines, size, _ = shape_of(x)
    assert isinstance(size, int)
    matrix = _matrix(radix, way)
    result: Node | None = None
    for part, weights in zip(x, (matrix, matrix * 1j), strict=True):
        if part is not None:
            both = np.concatenate([weights.real, weights.imag], 1)
            rows = build.reshape(part, (lines, radix, size // radix))
            term = build.dot(rows, build.constant(both, part.type.dtype), ((1,), (0,)))
            result = term if result is None else build.add(result, term)
    assert result is not None
    return build.reshape(result, (lines, size // radix, 2, radix, 1))


def _in_one(x: Number, way: DftForm) -> Number:
    """Transforms in one step: a product with the matrix, or a convolution."""
    size = shape_of(x)[1]
    assert isinstance(size, int)
    if size > PRIME:
        return _convolved(x, way)
    matrix = _matrix(size, way)

    def product(part: Node | None, weights: Array) -> Node | None:
        return None if part is None else product_along(part, weights, 1)

    real, imaginary = x
    return (
        total(product(real, matrix.real), product(imaginary, -matrix.imag)),
        total(product(real, matrix.imag), product(imaginary, matrix.real)),
    )


def product_along(x: Node, matrix: Array, axis: int) -> Node:
    """Every line of x along an axis times a matrix."""
    axis = normal_axis(axis, x.type.rank)
    lines = build.dot(x, build.constant(matrix, x.type.dtype), ((axis,), (0,)))
    order = list(range(x.type.rank - 1))
    order.insert(axis, x.type.rank - 1)
    return build.transpose(lines, order)


def _convolved(x: Number, way: DftForm) -> Number:
    """A transform as a convolution (Bluestein), by i k = (i² + k² - (k - i)²) / 2: elements are
    rotated by i²/2 steps, convolved with rotations by -j²/2, and rotated by k²/2.
    """
    size = shape_of(x)[1]
    assert isinstance(size, int)
    long = smooth(2 * size - 1)
    half = way.angles(np.arange(size) ** 2, 2 * size)[:, None]
    response = np.zeros(long, np.complex128)
    response[:size] = np.exp(-1j * half[:, 0])
    response[long - size + 1 :] = response[size - 1 : 0 : -1]
    spectrum = (np.fft.fft(response) * (way.share / long))[:, None]
    chirp = np.exp(1j * half)
    padded = each(multiplied(x, chirp), lambda p: build.pad(p, 0.0, (0, 0, 0), (0, long - size, 0)))
    product = multiplied(transformed(padded, DftForm(False)), spectrum)
    around = transformed(product, DftForm(True))
    return multiplied(each(around, lambda p: build.cut(p, 1, 0, size)), chirp)


def _matrix(size: int, way: DftForm) -> Array:
    """The matrix of a transform, complex."""
    return way.share * np.exp(1j * way.angles(np.outer(np.arange(size), np.arange(size)), size))


# ---- tensors between stages ----------------------------------------------------------------------


def _packed(y: Number) -> Node:
    """The results (lines, m, radix, l, columns) of a stage as one tensor (lines, m, 2, radix l,
    columns).
    """
    real, imaginary = whole(y)
    lines, starts, radix, done, columns = real.shape
    return build.reshape(
        build.concat([real, imaginary], 2), (lines, starts, 2, radix * done, columns)
    )


def _unpacked(packed: Node) -> Number:
    """The parts (lines, m, 1, l, columns) of a tensor (lines, m, 2, l, columns)."""
    return build.cut(packed, 2, 0, 1), build.cut(packed, 2, 1, 2)


def _joined(results: Sequence[Number]) -> Number:
    """Numbers along axis 2."""
    zeros = build.like(0.0, given(results[0]))
    real, imaginary = (
        None
        if all(part is None for part in parts)
        else build.concat([zeros if part is None else part for part in parts], 2)
        for parts in zip(*results, strict=True)
    )
    return real, imaginary


def _columns_to_lines(part: Node) -> Node:
    lines, size, columns = part.shape
    return build.reshape(build.transpose(part, (0, 2, 1)), (lines * columns, size, 1))


def _lines_to_columns(part: Node, lines: Dim, columns: Dim) -> Node:
    return build.transpose(build.reshape(part, (lines, columns, part.shape[1])), (0, 2, 1))
