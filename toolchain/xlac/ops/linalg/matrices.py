"""Shared by operations on matrices, which are the last two axes; all axes before them are a
batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import check_dtype
from xlac.ops.control.control import Scan
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.tensor.gather import Gather
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
COLUMNS = 16  # of a panel that is factored column by column


WIDE = frozenset({DType.F32, DType.F64})


# ---- types -----------------------------------------------------------------------------------


def check_matrix(mnemonic: str, a: Type, operand: int = 0) -> tuple[int, int]:
    """The rows and columns of matrices of f32 or f64, which must be known. Raises ShapeError."""
    check_dtype(mnemonic, a, WIDE, operand)
    rows, columns = a.shape[-2:] if a.rank >= 2 else (None, None)
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(f"{mnemonic} needs matrices of known size, got {a}", operand=operand)
    return rows, columns


def check_square(mnemonic: str, a: Type, operand: int = 0) -> int:
    """The size of square matrices. Raises ShapeError."""
    check_dtype(mnemonic, a, WIDE, operand)
    if a.rank < 2 or a.shape[-1] != a.shape[-2] or not isinstance(a.shape[-1], int):
        raise ShapeError(
            f"{mnemonic} needs square matrices of known size, got {a}", operand=operand
        )
    return a.shape[-1]


def check_right_side(mnemonic: str, a: Type, b: Type, operand: int = 1) -> None:
    """That b is (batch of a, rows of a, any number), of the element type of a. Raises
    ShapeError.
    """
    if b.dtype is not a.dtype or b.rank != a.rank or b.shape[:-1] != a.shape[:-1]:
        wanted = Type(a.dtype, (*a.shape[:-1], 1))
        raise ShapeError(
            f"{mnemonic}: {b} does not fit {a}: it needs the shape of {wanted} but for the last "
            "size, and its element type",
            operand=operand,
        )


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number of a type."""
    return float(np.finfo(dtype.numpy).eps)


# ---- nodes -----------------------------------------------------------------------------------


def swapped(a: Node) -> Node:
    """The transposed matrices."""
    rank = a.type.rank
    return build.transpose(a, [*range(rank - 2), rank - 1, rank - 2])


def product(a: Node, b: Node) -> Node:
    """The products of matrices, batch by batch."""
    rank = a.type.rank
    batch = tuple(range(rank - 2))
    return build.dot(a, b, ((rank - 1,), (rank - 2,)), (batch, batch))


def identity(like: Type) -> Node:
    """The identity matrices of the shape of `like`, whose last two sizes are equal."""
    eye = build.apply1("eye", rows=like.shape[-1], dtype=like.dtype)
    return build.broadcast_to(eye, like.shape)


def diagonal(a: Node) -> Node:
    """The diagonal of square matrices: (…, n)."""
    return build.reduce(build.select(on_diagonal(a.shape), a, 0.0), "add", a.type.rank - 1)


def on_diagonal(shape: Shape) -> Node:
    """True on the diagonal of matrices of a shape."""
    rank = len(shape)
    return build.compare(build.iota(shape, rank - 2), "eq", build.iota(shape, rank - 1))


def part(a: Node, rows: tuple[int, int], columns: tuple[int, int]) -> Node:
    """The submatrix of rows and columns within half-open ranges."""
    rank = a.type.rank
    return build.cut(build.cut(a, rank - 2, *rows), rank - 1, *columns)


def first_block(size: int, least: int) -> int:
    """How many of `size` rows or columns are computed first: all up to `least`, else the largest
    `least` * 2^k below `size`, so that few shapes occur.
    """
    if size <= least:
        return size
    block = least
    while 2 * block < size:
        block *= 2
    return block


def entry(x: Node, axis: int, number: Node) -> Node:
    """The slice of x at one position of an axis, which is removed."""
    return build.take(x, number, axis)


def placed(x: Node, axis: int, number: Node, value: Node) -> Node:
    """x with the slice at one position of an axis replaced."""
    here = build.compare(build.iota(x.shape, axis), "eq", build.broadcast_to(number, x.shape))
    return build.select(here, build.back(value, x.shape, (axis,)), x)


def written(x: Node, number: Node, row: Node) -> Node:
    """Matrices x with row `number` of all replaced by `row`, (…, n)."""
    rank, zero = x.type.rank, build.constant(0, DType.I64)
    starts = [*[zero] * (rank - 2), number, zero]
    update = build.reshape(row, (*x.shape[:-2], 1, x.shape[-1]))
    return Node.of(DynUpdate(), x, update, *starts)


def gathered(x: Node, numbers: Node) -> Node:
    """The rows of matrices x (…, m, n) with the indices `numbers` (…, k): (…, k, n)."""
    rank = x.type.rank
    batch = tuple(range(rank - 2))
    op = Gather(
        offset_dims=(rank - 1,),
        collapsed_slice_dims=(rank - 2,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
        start_index_map=(rank - 2,),
        index_vector_dim=rank - 1,
        slice_sizes=(*(0 if s == 0 else 1 for s in x.shape[:-1]), x.shape[-1]),
    )
    return Node.of(op, x, numbers)


def largest(parts: tuple[Node, ...]) -> Node:
    """The largest magnitudes of matrices given by parts of one shape, (…, 1, 1): 1 where all
    are 0.
    """
    rank = parts[0].type.rank
    each = [
        build.reduce(build.apply1("abs", x), "max", (rank - 2, rank - 1), keepdims=True)
        for x in parts
    ]
    most = each[0] if len(each) == 1 else build.maximum(*each)
    return build.select(build.compare(most, "eq", 0.0), 1.0, most)


def only_finite(x: Node, scale: Node) -> Node:
    """x, or NaN for matrices whose largest magnitude `scale` is not finite."""
    known = build.apply1("isfinite", scale)
    return build.select(build.broadcast_to(known, x.shape), x, float("nan"))


def over(
    size: int,
    step: Callable[..., Node | list[Node]],
    first: tuple[Node, ...],
    given: tuple[Node, ...],
    reverse: bool = False,
) -> Node:
    """A loop of `step(*carried, number, *given)` for each number below `size`, starting with
    `first`: a node whose results are the last carried values, then any further results of the
    steps, stacked.
    """
    number = Type(DType.I64)
    types = [*(f.type for f in first), number, *(g.type for g in given)]
    body = build.graph("step", types, step)
    op = Scan(body, size, len(first), 1, reverse)
    return Node.of(op, *first, build.iota((size,), 0), *given)
