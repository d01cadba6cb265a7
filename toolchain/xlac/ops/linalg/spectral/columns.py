"""What divide and conquer does alike for eigenvalues and for singular values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.linalg.matrices import epsilon
from xlac_sdk.dtypes import DType

LEAF = 16  # the most rows of blocks that are joined from single ones, in steps of powers of two


def leaf_of(size: int) -> tuple[int, int]:
    """The rows of the blocks into which `size` rows are divided, and the number of blocks, a power
    of two; together they have at least `size`.
    """
    leaf, leaves = size, 1
    while leaf > LEAF:
        leaves *= 2
        leaf = -(-size // leaves)
    return leaf, leaves


def width_of(leaf: int) -> int:
    """The least power of two of at least `leaf`: rows of a block while it is joined."""
    return 1 << (leaf - 1).bit_length()


def scaled_down(on: Node, beside: Node, by: float) -> tuple[Node, Node, Node]:
    """The numbers (…, n) and (…, n - 1) of matrices divided by `by` times the largest of them, and
    that divisor (…, 1); by `by` where all are 0.
    """
    axis = on.type.rank - 1
    whole = build.concat([on, beside], axis)
    most = build.reduce(build.apply1("abs", whole), "max", axis, keepdims=True)
    scale = build.mul(build.select(build.compare(most, "eq", 0.0), 1.0, most), by)
    return build.div(on, scale), build.div(beside, scale), scale


def padded(x: Node, size: int) -> Node:
    """(…, n) with zeros up to a size."""
    axis, known = x.type.rank - 1, x.shape[-1]
    assert isinstance(known, int)
    return build.pad(x, 0.0, [0] * (axis + 1), [0] * axis + [size - known])


def apart(count: int) -> Array:
    """`count` numbers from 0 to less than 0.125, all different."""
    return np.arange(count) / (8 * max(count, 1))


def extra(like: Node, count: int, first: float) -> Node:
    """`count` numbers from `first` on, all different, for each of a batch (…, n)."""
    numbers = (first + apart(count)).astype(like.type.dtype.numpy)
    return build.broadcast_to(build.as_node(numbers), (*like.shape[:-1], count))


def order_of(x: Node, descending: bool = False) -> Node:
    """The places (…, n) of numbers in ascending order, i32."""
    order = build.apply1("argsort", x, axis=x.type.rank - 1, descending=descending)
    return build.cast(order, DType.I32)


def taken(x: Node, places: Node) -> Node:
    """Numbers (…, n) at places."""
    return build.apply1("take_along_axis", x, places, axis=x.type.rank - 1)


def moved_apart(ascending: Node) -> Node:
    """Numbers (…, n) from 0 to 1, or in magnitude below 1, ascending, moved up where they are not
    apart by two units in the last place or more.
    """
    axis, dtype = ascending.type.rank - 1, ascending.type.dtype
    number = build.cast(build.iota(ascending.shape, axis, DType.I32), dtype)
    steps = build.mul(number, 2 * epsilon(dtype))
    least = build.apply1("cumulative", build.sub(ascending, steps), axis=axis, combine="max")
    return build.add(least, steps)


def away_from_zero(x: Node) -> Node:
    """Numbers of a magnitude of at least a rounding error of 1."""
    eps = epsilon(x.type.dtype)
    return build.select(build.compare(x, "lt", 0.0), build.minimum(x, -eps), build.maximum(x, eps))


def with_sign(size: Node, like: Node) -> Node:
    """Numbers of at least 0 with the signs of others."""
    return build.select(build.compare(like, "lt", 0.0), build.apply1("neg", size), size)


def normalized(vectors: Node) -> Node:
    """Columns (…, m, n) of length 1."""
    axis = vectors.type.rank - 2
    length = build.reduce(build.mul(vectors, vectors), "add", axis)
    return build.mul(vectors, build.back(build.apply1("rsqrt", length), vectors.shape, (axis,)))


def permutation(place: Node, dtype: DType) -> Node:
    """Matrices with 1 in row j and column place[j] (…, n), else 0."""
    shape = (*place.shape, place.shape[-1])
    axis = place.type.rank
    number = build.iota(shape, axis, DType.I32)
    return build.cast(build.compare(build.back(place, shape, (axis,)), "eq", number), dtype)


def sorted_columns(
    values: Node, vectors: Sequence[Node], descending: bool = False
) -> tuple[Node, list[Node]]:
    """Values (…, n) in order, and the columns of each of the matrices (…, n, n) with them."""
    axis, order = values.type.rank - 1, order_of(values, descending)
    places = build.back(order, vectors[0].shape, (axis,))
    moved = [build.apply1("take_along_axis", v, places, axis=axis + 1) for v in vectors]
    return taken(values, order), moved
