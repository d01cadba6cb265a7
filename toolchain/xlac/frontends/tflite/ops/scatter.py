"""Scatters, and reductions of segments."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("SCATTER_ND")
def scatter_nd(call: TFLiteCall) -> Node:
    """Zeros of a shape, to which slices are added at index vectors."""
    indices, updates = call[0], call[1]
    zeros = build.full(0, call.dims(2), updates.type.dtype)
    return build.apply1("scatter_nd", zeros, indices, updates, combine="add")


@operator("SPARSE_TO_DENSE", "SparseToDenseOptions")
def sparse_to_dense(call: TFLiteCall) -> Node:
    """A default value with values at index vectors."""
    indices, shape, values, default = call[0], call.dims(1), call[2], call[3]
    if indices.type.rank < 2:
        count = 1 if indices.type.rank == 0 else indices.shape[0]
        indices = build.reshape(indices, (count, 1) if len(shape) == 1 else (1, len(shape)))
    values = build.broadcast_to(values, (indices.shape[0],))
    filled = build.broadcast_to(build.reshape(default, ()), shape)
    return build.apply1("scatter_nd", filled, indices, values)


def _empty(combine: str, dtype: DType) -> float:
    """The value of an empty segment."""
    if combine in ("add", "mul"):
        return float(combine == "mul")
    limits = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    return limits.min if combine == "max" else limits.max


def _segments(name: str, combine: str) -> None:
    @operator(name)
    def segments(call: TFLiteCall) -> Node:
        """Combines the rows of x of each segment; an empty segment is 0, 1, or the least or
        greatest number of the type.
        """
        x, ids = call[0], call[1]
        if name == "SEGMENT_SUM":
            known = call.value(1)
            count = int(known.max(initial=-1)) + 1
        else:
            (count,) = call.ints(2)
        if count < 0 or count > 1 << 32:
            call.fail(f"there are {count} segments")
        rank = ids.type.rank
        start = build.full(_empty(combine, x.type.dtype), (count, *x.shape[rank:]), x.type.dtype)
        where = build.reshape(ids, (*ids.shape, 1))
        return build.apply1("scatter_nd", start, where, x, combine=combine)


_segments("SEGMENT_SUM", "add")
_segments("UNSORTED_SEGMENT_SUM", "add")
_segments("UNSORTED_SEGMENT_PROD", "mul")
_segments("UNSORTED_SEGMENT_MAX", "max")
_segments("UNSORTED_SEGMENT_MIN", "min")
