"""Indices that are data: what gather, scatter and dynamic slices share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.ops.checks import INTEGERS, check_axes, check_dtype
from xlac.ops.tensor.in_range import clamp
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

Ints = tuple[int, ...]


def index_element(value: Expr, last: Dim) -> Expr:
    """An integer read from a tensor, as an index clamped into 0..last."""
    if value.dtype is DType.U64:  # beyond 2**63 it would turn negative
        most = (
            Const(last, DType.U64)
            if isinstance(last, int)
            else build.cast(build.lift(last), DType.U64)
        )
        value = build.apply(Primitive.MIN, value, most)
    elif (
        isinstance(last, int) and not value.dtype.is_signed and last >= (1 << value.dtype.bits) - 1
    ):
        return build.cast(value, build.INDEX)
    return clamp(build.cast(value, build.INDEX), last)


def batch_shape(mnemonic: str, indices: Type, vector: int) -> tuple[tuple[Dim, ...], Dim]:
    """The shape of `indices` without its index vectors, and their length."""
    check_dtype(mnemonic, indices, INTEGERS, 1)
    if not 0 <= vector <= indices.rank:
        raise ShapeError(
            f"index_vector_dim {vector} is not an axis of {indices}", attribute="index_vector_dim"
        )
    if vector == indices.rank:
        return indices.shape, 1
    return indices.shape[:vector] + indices.shape[vector + 1 :], indices.shape[vector]


def check_pairs(
    mnemonic: str, x: Type, indices: Type, own: Sequence[int], others: Sequence[int]
) -> None:
    """The batching axes of an operand and of its indices match."""
    check_axes(own, x.rank, "operand_batching_dims")
    check_axes(others, indices.rank, "start_indices_batching_dims")
    if len(own) != len(others):
        raise ShapeError(
            f"batching axes of {mnemonic} must pair up, got {list(own)} and {list(others)}",
            attribute="operand_batching_dims",
        )
    for a, b in zip(own, others, strict=True):
        if x.shape[a] != indices.shape[b]:
            raise ShapeError(
                f"batching axes of {mnemonic} differ: axis {a} of {x} and axis {b} of {indices}",
                operand=1,
            )


def clamped(index: Array, last: int) -> Array:
    """Indices of any integer type moved into 0..last, as int64."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(last))
    return np.clip(index.astype(np.int64), 0, last)


def scalar_size(size: Dim) -> Node:
    """A size as an i64 scalar."""
    if isinstance(size, int):
        return apply("const", value=np.asarray(size, np.int64))
    line = apply("iota", shape=(size,), axis=0, dtype=DType.I64)
    return apply("cast", apply("dim_size", line, axis=0), dtype=DType.I64)


def clamped_starts(
    indices: Node, vector: int, lasts: Sequence[Dim], firsts: Sequence[Dim] = ()
) -> Node:
    """Starts of slices as i64, each moved into 0..last (or first..last) of its place along the axis
    `vector` (the rank: there is one place and no such axis).
    """
    if indices.type.dtype is DType.U64:  # beyond 2**63 it would turn negative
        most = apply("const", value=np.asarray(2**62, np.uint64))
        indices = apply("min", indices, apply("broadcast", most, shape=indices.shape, axes=()))
    if indices.type.dtype is not DType.I64:
        indices = apply("cast", indices, dtype=DType.I64)

    if not lasts:
        return indices
    least = along_vector(indices, vector, tuple(firsts) or (0,) * len(lasts))
    return apply("max", apply("min", indices, along_vector(indices, vector, lasts)), least)


def along_vector(indices: Node, vector: int, sizes: Sequence[Dim]) -> Node:
    """A size for each place along the axis `vector`, as i64 of the shape of `indices`."""
    axes = (vector,) if vector < indices.type.rank else ()
    if not axes:
        line = scalar_size(sizes[0])
    elif all(isinstance(size, int) for size in sizes):
        line = apply("const", value=np.asarray(sizes, np.int64))
    else:
        each = (apply("reshape", scalar_size(size), shape=(1,)) for size in sizes)
        line = apply("concat", *each, axis=0)
    return apply("broadcast", line, shape=indices.shape, axes=axes)


def taken_along(x: Node, places: Node, axis: int) -> Node:
    """The element of x at a place along an axis, for each element of `places`, of x's shape."""
    others = tuple(other for other in range(x.type.rank) if other != axis)
    return apply(
        "gather",
        x,
        places,
        collapsed_slice_dims=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=(axis,),
        index_vector_dim=x.type.rank,
        slice_sizes=tuple(0 if size == 0 else 1 for size in x.shape),
    )


def out_of_range(indices: Node, counts: Sequence[Dim], axis: int) -> Sequence[DeclaredFault]:
    """Starts of slices that would not lie inside, by how many starts there are for each position
    along an axis.
    """
    each = tuple(counts)
    return (OutOfRange(indices, each, None if axis == indices.type.rank else axis),)
