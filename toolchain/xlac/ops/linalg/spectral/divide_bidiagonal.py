"""Singular values and vectors of bidiagonal matrices by divide and conquer.

A matrix of n rows, with a column of zeros after its last, is divided at rows: one such row joins
two blocks of m rows and m + 1 columns. With their singular vectors, the matrix of both is an arrow,
numbers in its first row and on its diagonal, whose squared singular values are the roots of a
secular equation (Gu and Eisenstat, A divide-and-conquer algorithm for the bidiagonal SVD, 1995).
As in `divide`, all pairs of blocks of one size are joined at once, and nothing is deflated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.linalg.matrices import epsilon, product
from xlac.ops.linalg.spectral.columns import (
    apart,
    away_from_zero,
    leaf_of,
    moved_apart,
    normalized,
    order_of,
    permutation,
    scaled_down,
    sorted_columns,
    taken,
    width_of,
    with_sign,
)
from xlac.ops.linalg.spectral.secular import Secular, across, down
from xlac_sdk.dtypes import DType

# A matrix is divided by 4 times its largest number: singular values are below 0.5. Rows of padding
# have larger ones, all different, which come last.
SCALE, PADDING, LEAF_PADDING = 4.0, 0.6, 0.75


def singular(diagonal: Node, above: Node) -> tuple[Node, Node, Node]:
    """U, S and V, with singular values descending and vectors as columns, of square matrices with a
    diagonal (…, n) and `above` (…, n - 1) above it, n at least 1. What is not finite makes NaN.
    """
    size, axis, batch = diagonal.shape[-1], diagonal.type.rank - 1, diagonal.shape[:-1]
    assert isinstance(size, int)
    diagonal, above, scale = scaled_down(diagonal, above, SCALE)
    leaf, leaves = leaf_of(size + 1)
    rows = leaf * leaves  # with one after the last, which joins nothing
    matrix = _Rows.of(diagonal, above, rows, leaf)
    found = _joined(_leaves(matrix, leaf), matrix, rows)
    u, v = (
        build.cut(build.cut(x, axis, 0, size), axis + 1, 0, size)
        for x in (
            build.reshape(found.left, (*batch, rows - 1, rows - 1)),
            build.reshape(found.right, (*batch, rows, rows)),
        )
    )
    moved = build.mul(v, down(diagonal))
    if size > 1:
        low = build.cut(v, axis, 1, size)
        low = build.mul(low, build.back(above, low.shape, (axis + 1,)))
        moved = build.add(moved, build.pad(low, 0.0, [0] * (axis + 2), [0] * axis + [1, 0]))
    # u' B v: what moving values apart has cost is put right
    values = build.reduce(build.mul(u, moved), "add", axis)
    u = build.mul(u, across(with_sign(build.like(1.0, values), values)))
    values, (u, v) = sorted_columns(build.apply1("abs", values), (u, v), descending=True)
    return u, build.mul(values, scale), v


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The singular value decompositions of blocks of m rows and m + 1 columns."""

    values: Node  # (…, blocks, m), ascending
    left: Node  # vectors as columns, (…, blocks, m, m)
    right: Node  # (…, blocks, m + 1, m + 1); the last is that which a matrix makes 0


def _of_row(first: Node, second: Node) -> tuple[Node, Node, Node]:
    """Length, cosine and sine of rows of two numbers (…); a cosine of 1 where both are 0."""
    sizes = build.apply1("abs", first), build.apply1("abs", second)
    most = build.maximum(*sizes)
    none = build.compare(most, "eq", 0.0)
    most = build.select(none, 1.0, most)
    first, second = build.div(first, most), build.div(second, most)
    length = build.sqrt(build.add(build.mul(first, first), build.mul(second, second)))
    by = build.select(none, 1.0, length)
    cosine = build.select(none, 1.0, build.div(first, by))
    return build.mul(length, most), cosine, build.div(second, by)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The two numbers of each row of bidiagonal matrices: the places of them among `numbers`
    (…, k).
    """

    numbers: Node
    first: Array
    second: Array

    @staticmethod
    def of(diagonal: Node, above: Node, rows: int, leaf: int) -> _Rows:
        """Matrices padded to a number of rows. `numbers` has those of padding for blocks, too."""
        size, axis = diagonal.shape[-1], diagonal.type.rank - 1
        assert isinstance(size, int)
        more = max(rows - size - 1, 0)
        values = [PADDING + apart(more), LEAF_PADDING + apart(width_of(leaf) - leaf)]
        constants = np.concatenate([*values, np.zeros(1)]).astype(diagonal.type.dtype.numpy)
        wide = build.broadcast_to(build.as_node(constants), (*diagonal.shape[:-1], len(constants)))
        numbers = build.concat([diagonal, above, wide], axis)
        row, zero = np.arange(rows), 2 * size - 2 + len(constants)
        first = np.where(row < size, row, zero)
        padding = np.where(row < rows - 1, size - 1 + row, zero)
        second = np.where(row < size - 1, size + row, np.where(row < size, zero, padding))
        return _Rows(numbers, first, second)

    def blocks(self, leaf: int, width: int) -> _Rows:
        """Blocks of leaf - 1 rows, padded to width - 1 rows, each with one that is 0 after it."""
        zero = int(self.numbers.shape[-1]) - 1  # type: ignore[arg-type]
        first, second = (
            np.concatenate(
                [
                    x.reshape(-1, leaf)[:, : leaf - 1],
                    np.broadcast_to(more, (len(x) // leaf, width - leaf)),
                    np.full((len(x) // leaf, 1), zero),
                ],
                1,
            )
            for x, more in (
                (self.first, zero),
                (self.second, np.arange(zero - (width - leaf), zero)),
            )
        )
        return _Rows(self.numbers, first.reshape(-1), second.reshape(-1))

    def every(self, start: int, step: int) -> tuple[Node, Node]:
        """The numbers of every step-th row, (…, rows, 1)."""
        axis = self.numbers.type.rank - 1
        chosen = [
            build.take(self.numbers, build.as_node(x[start::step].astype(np.int32)), axis)
            for x in (self.first, self.second)
        ]
        first, second = (build.reshape(x, (*x.shape, 1)) for x in chosen)
        return first, second


def _leaves(matrix: _Rows, leaf: int) -> _Blocks:
    """Blocks of leaf - 1 rows, each before one that joins it to the next."""
    axis, width = matrix.numbers.type.rank - 1, width_of(leaf)
    rows = matrix.blocks(leaf, width)
    length, cosine, sine = _of_row(*rows.every(0, 2))
    left = build.full(1.0, (*length.shape, 1), length.type.dtype)
    right = build.concat([cosine, build.apply1("neg", sine), sine, cosine], axis + 1)
    blocks = _Blocks(length, left, build.reshape(right, (*length.shape[:-1], 2, 2)))
    found = _joined(blocks, rows, width)
    if width == leaf:
        return found
    right = build.cut(found.right, axis + 1, 0, leaf)
    ends = [build.cut(right, axis + 2, *e) for e in ((0, leaf - 1), (width - 1, width))]
    return _Blocks(
        build.cut(found.values, axis + 1, 0, leaf - 1),
        build.cut(build.cut(found.left, axis + 1, 0, leaf - 1), axis + 2, 0, leaf - 1),
        build.concat(ends, axis + 2),
    )


def _joined(blocks: _Blocks, rows: _Rows, size: int) -> _Blocks:
    """Blocks joined until they are of size - 1 rows."""
    while True:
        each = blocks.values.shape[-1]
        assert isinstance(each, int)
        if each + 1 == size:
            return blocks
        blocks = _pairs_joined(blocks, *rows.every(each, 2 * (each + 1)))


def _pairs_joined(blocks: _Blocks, first: Node, second: Node) -> _Blocks:
    """Pairs of blocks of m rows joined to blocks of 2 m + 1, each by a row with the two numbers
    `first` and `second` (…, pairs, 1).
    """
    *batch, count, rows = blocks.values.shape
    assert isinstance(count, int) and isinstance(rows, int)
    axis, pairs, size = len(batch), (*batch, count // 2), 2 * rows + 1
    left = build.reshape(blocks.left, (*pairs, 2, rows, rows))
    right = build.reshape(blocks.right, (*pairs, 2, rows + 1, rows + 1))

    def end(half: int, row: int, columns: tuple[int, int]) -> Node:
        one = build.cut(build.cut(right, axis + 1, half, half + 1), axis + 2, row, row + 1)
        one = build.cut(one, axis + 3, *columns)
        return build.reshape(one, (*pairs, columns[1] - columns[0]))

    known, null = (0, rows), (rows, rows + 1)
    length, cosine, sine = _of_row(
        build.mul(first, end(0, rows, null)), build.mul(second, end(1, 0, null))
    )
    ends = build.mul(first, end(0, rows, known)), build.mul(second, end(1, 0, known))
    z = build.concat([length, *ends], axis + 1)
    most = build.maximum(build.apply1("abs", first), build.apply1("abs", second))
    alone = build.compare(most, "le", epsilon(z.type.dtype) / 4)
    values, by_left, by_right = _of_arrow(
        build.reshape(blocks.values, (*pairs, 2 * rows)), z, alone
    )
    halves = [
        build.reshape(build.cut(x, axis + 1, 1, size), (*pairs, 2, rows, size))
        for x in (by_left, by_right)
    ]
    turned = product(left, halves[0])
    upper, lower = (
        build.reshape(build.cut(turned, axis + 1, k, k + 1), (*pairs, rows, size)) for k in (0, 1)
    )
    left = build.concat([upper, build.cut(by_left, axis + 1, 0, 1), lower], axis + 1)
    # the vectors that the blocks make 0, turned: to one of the row that joins them, and a new one
    shape = (*pairs, 2, 1, size)
    top = build.back(build.cut(by_right, axis + 1, 0, 1), shape, (axis + 1,))

    def both(x: Node, y: Node) -> Node:
        return build.reshape(build.concat([x, y], axis + 1), (*pairs, 2, 1, 1))

    top = build.mul(build.broadcast_to(both(cosine, sine), shape), top)
    last = [build.concat([top, both(build.apply1("neg", sine), cosine)], axis + 3)]
    inner = build.pad(halves[1], 0.0, [0] * (axis + 4), [0] * (axis + 3) + [1])
    right = product(right, build.concat([inner, *last], axis + 2))
    return _Blocks(values, left, build.reshape(right, (*pairs, size + 1, size + 1)))


def _of_arrow(diagonal: Node, z: Node, alone: Node) -> tuple[Node, Node, Node]:
    """Singular values (…, n), ascending, and left and right vectors of matrices with z (…, n) as
    first row and, beneath it, `diagonal` (…, n - 1) in any order, of at least 0 and below 1. Where
    `alone` (…, 1) z counts as 0.
    """
    axis, dtype = z.type.rank - 1, z.type.dtype
    zero = build.full(0.0, (*z.shape[:-1], 1), dtype)
    first = build.full(0, (*z.shape[:-1], 1), DType.I32)
    order = order_of(diagonal)
    place = build.concat([first, build.add(order_of(order), 1)], axis)
    ascending = build.concat([zero, taken(diagonal, order)], axis)
    ordered = moved_apart(ascending)
    poles, z = taken(ordered, place), away_from_zero(z)
    weights = build.mul(z, z)
    order = build.concat([first, build.add(order, 1)], axis)
    constant = build.full(1.0, zero.shape, dtype)
    equation = Secular(poles, ordered, weights, taken(weights, order), constant, _squares)
    roots = equation.roots()
    exact = with_sign(build.sqrt(roots.weights(place)), z)
    inverse = build.div(1.0, roots.gaps())
    # times the offsets, so that squares of f32 do not overflow: those of left vectors cannot
    size = across(build.apply1("abs", roots.offset))
    right = build.mul(down(exact), build.mul(size, inverse))
    at_first = build.compare(build.iota(right.shape, axis), "eq", 0)
    left = build.select(at_first, -1.0, build.mul(down(build.mul(poles, exact)), inverse))
    values = build.sqrt(build.add(build.mul(roots.origin, roots.origin), roots.offset))
    kept = permutation(place, dtype)
    whole = build.broadcast_to(build.reshape(alone, (*alone.shape, 1)), right.shape)
    return (
        build.select(build.broadcast_to(alone, values.shape), ascending, values),
        build.select(whole, kept, normalized(left)),
        build.select(whole, kept, normalized(right)),
    )


def _squares(x: Node, y: Node) -> Node:
    """x² - y²."""
    return build.mul(build.sub(x, y), build.add(x, y))
