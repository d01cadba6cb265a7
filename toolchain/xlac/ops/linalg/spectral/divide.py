"""Eigenvalues and eigenvectors of symmetric tridiagonal matrices by divide and conquer.

A matrix is torn into single numbers: for each number e beside the diagonal, |e| is subtracted from
the two numbers of the diagonal that it joins. Then blocks are joined in pairs, all pairs of one
size at once: with the eigenvectors of two blocks, the matrix of both is diagonal plus |e| z z'. Its
eigenvalues are the roots of a secular equation (Cuppen, A divide and conquer method for the
symmetric tridiagonal eigenproblem, 1981).

Nothing is deflated, so that sizes do not depend on numbers: instead numbers of the diagonal that
are nearly equal are moved apart by a rounding error, and numbers of z that are nearly 0 away from
it. What that costs eigenvalues in clusters is put right at the end, by Rayleigh quotients.
"""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.linalg.matrices import epsilon, product
from xlac.ops.linalg.spectral.columns import (
    away_from_zero,
    extra,
    leaf_of,
    moved_apart,
    normalized,
    order_of,
    padded,
    permutation,
    scaled_down,
    sorted_columns,
    taken,
    width_of,
    with_sign,
)
from xlac.ops.linalg.spectral.secular import Secular, down

# A matrix is divided by 5 times its largest number: eigenvalues, and those of all parts of the torn
# matrix, are below 0.6. Rows of padding have larger ones, all different, and so come last.
SCALE, PADDING, LEAF_PADDING = 5.0, 0.7, 0.85


def eigen(diagonal: Node, beside: Node) -> tuple[Node, Node]:
    """Eigenvalues (…, n), ascending, and eigenvectors, as columns (…, n, n), of matrices with a
    diagonal (…, n) and `beside` (…, n - 1) next to it. What is not finite makes NaN.
    """
    size, axis = diagonal.shape[-1], diagonal.type.rank - 1
    dtype = diagonal.type.dtype
    assert isinstance(size, int)
    if size < 2:
        return diagonal, build.full(1.0, (*diagonal.shape, size), dtype)
    diagonal, beside, scale = scaled_down(diagonal, beside, SCALE)
    leaf, leaves = leaf_of(size)
    values, vectors = _leaves(*_torn(diagonal, beside, leaf * leaves), leaf, leaves)
    beside_all = padded(beside, leaf * leaves)
    values, vectors = _joined(values, vectors, beside_all, leaf * leaves)
    vectors = build.reshape(vectors, (*diagonal.shape[:-1], leaf * leaves, leaf * leaves))
    vectors = build.cut(build.cut(vectors, axis, 0, size), axis + 1, 0, size)
    values = _quotients(diagonal, beside, vectors)
    values, (vectors,) = sorted_columns(values, (vectors,))
    return build.mul(values, scale), vectors


def _torn(diagonal: Node, beside: Node, size: int) -> tuple[Node, Node]:
    """The diagonal of the torn matrix, and the numbers beside it, each of `size` with padding."""
    axis, known = diagonal.type.rank - 1, diagonal.shape[-1]
    assert isinstance(known, int)
    beside = padded(beside, size)
    if size > known:
        diagonal = build.concat([diagonal, extra(diagonal, size - known, PADDING)], axis)
    sizes = build.apply1("abs", beside)
    before = build.pad(build.cut(sizes, axis, 0, size - 1), 0.0, [0] * axis + [1], [0] * (axis + 1))
    return build.sub(build.sub(diagonal, sizes), before), beside


def _leaves(diagonal: Node, beside: Node, leaf: int, leaves: int) -> tuple[Node, Node]:
    """Eigenvalues (…, leaves, leaf) and eigenvectors of the blocks, from those of single
    numbers.
    """
    batch, axis = diagonal.shape[:-1], diagonal.type.rank
    width = width_of(leaf)
    values = build.reshape(diagonal, (*batch, leaves, leaf))
    if width > leaf:
        values = build.concat([values, extra(values, width - leaf, LEAF_PADDING)], axis)
    inside = build.reshape(beside, (*batch, leaves, leaf))
    inside = build.select(
        build.compare(build.iota(inside.shape, axis), "lt", leaf - 1), inside, 0.0
    )
    inside = build.reshape(padded(inside, width), (*batch, leaves * width))
    values = build.reshape(values, (*batch, leaves * width, 1))
    vectors = build.full(1.0, (*batch, leaves * width, 1, 1), values.type.dtype)
    values, vectors = _joined(values, vectors, inside, width)
    values = build.cut(values, axis, 0, leaf)
    return values, build.cut(build.cut(vectors, axis, 0, leaf), axis + 1, 0, leaf)


def _joined(values: Node, vectors: Node, beside: Node, size: int) -> tuple[Node, Node]:
    """Blocks (…, blocks, m), joined until they are of a size: `beside` has the numbers beside the
    diagonal, in order.
    """
    *batch, blocks, rows = values.shape
    assert isinstance(blocks, int) and isinstance(rows, int)
    axis = len(batch)
    while rows < size:
        blocks, both = blocks // 2, 2 * rows
        pairs = build.reshape(vectors, (*batch, blocks, 2, rows, rows))
        ends = [
            build.reshape(
                build.cut(build.cut(pairs, axis + 1, half, half + 1), axis + 2, row, row + 1),
                (*batch, blocks, rows),
            )
            for half, row in ((0, rows - 1), (1, 0))
        ]
        shaped = build.reshape(beside, (*batch, blocks, both))
        between = build.reshape(build.cut(shaped, axis + 1, rows - 1, rows), (*batch, blocks, 1))
        negative = build.compare(between, "lt", 0.0)
        ends[1] = build.select(negative, build.apply1("neg", ends[1]), ends[1])
        z, rho = build.concat(ends, axis + 1), build.apply1("abs", between)
        values, turn = _of_sum(build.reshape(values, (*batch, blocks, both)), z, rho)
        halves = build.reshape(turn, (*batch, blocks, 2, rows, both))
        vectors = build.reshape(product(pairs, halves), (*batch, blocks, both, both))
        rows = both
    return values, vectors


def _of_sum(diagonal: Node, z: Node, rho: Node) -> tuple[Node, Node]:
    """Eigenvalues (…, n), ascending, and eigenvectors (…, n, n) of D + rho z z', with a diagonal of
    numbers below 1 in any order, |z|² = 2, and rho (…, 1) of at least 0.
    """
    eps = epsilon(diagonal.type.dtype)
    order = order_of(diagonal)
    place, ascending = order_of(order), taken(diagonal, order)
    ordered = moved_apart(ascending)
    z = away_from_zero(z)
    weights = build.mul(z, z)
    inverse = build.div(1.0, build.maximum(rho, eps))
    roots = Secular(taken(ordered, place), ordered, weights, taken(weights, order), inverse).roots()
    exact = with_sign(build.sqrt(roots.weights(place)), z)
    vectors = normalized(build.div(down(exact), roots.gaps()))
    # blocks that nothing joins keep their vectors exactly
    apart = build.compare(rho, "le", eps / 4)
    alone = build.broadcast_to(build.reshape(apart, (*apart.shape, 1)), vectors.shape)
    kept = permutation(place, diagonal.type.dtype)
    values = build.select(
        build.broadcast_to(apart, diagonal.shape), ascending, build.add(roots.origin, roots.offset)
    )
    return values, build.select(alone, kept, vectors)


def _quotients(diagonal: Node, beside: Node, vectors: Node) -> Node:
    """Rayleigh quotients (…, n) of vectors, the columns (…, n, n)."""
    axis, size = diagonal.type.rank - 1, diagonal.shape[-1]
    assert isinstance(size, int)
    upper, lower = (build.cut(vectors, axis, *ends) for ends in ((0, size - 1), (1, size)))
    squares = build.mul(build.mul(vectors, vectors), down(diagonal))
    beside = build.back(beside, upper.shape, (axis + 1,))
    joined = build.mul(build.mul(upper, lower), beside)
    return build.add(
        build.reduce(squares, "add", axis), build.mul(build.reduce(joined, "add", axis), 2.0)
    )
