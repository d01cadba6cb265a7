"""Tensors created from sizes and numbers."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build

MOST = 1 << 32  # elements of a range


@operator("FILL")
def fill(call: TFLiteCall) -> Node:
    """A tensor of one value."""
    return build.broadcast_to(build.reshape(call[1], ()), call.dims(0))


@operator("ZEROS_LIKE")
def zeros_like(call: TFLiteCall) -> Node:
    """Zeros of the input's shape."""
    return build.like(0, call[0])


@operator("RANGE")
def range_of(call: TFLiteCall) -> Node:
    """Numbers from a start to before a limit, with a given step."""
    start, limit, step = (call.value(n).reshape(-1)[0] for n in range(3))
    if step == 0 or not np.isfinite([float(start), float(limit), float(step)]).all():
        call.fail(f"a range from {start} to {limit} by {step} does not end")
    if start.dtype.kind == "f":
        count = int(np.ceil(abs((float(limit) - float(start)) / float(step))))
        count = count if (limit - start) * step > 0 else 0
    else:
        count = len(range(int(start), int(limit), int(step)))
    if count > MOST:
        call.fail(f"a range of {count:,} numbers; at most {MOST:,} are supported")
    steps = build.iota((count,), 0, call[0].type.dtype)
    return build.add(build.mul(steps, build.reshape(call[2], ())), build.reshape(call[0], ()))


@operator("ONE_HOT", "OneHotOptions")
def one_hot(call: TFLiteCall) -> Node:
    """`on` at each index, `off` elsewhere, along a new axis of `depth`."""
    indices, on, off = call[0], call[2], call[3]
    (depth,) = call.dims(1)
    axis = call.option("axis")
    axis = indices.type.rank if axis == -1 else normal_axis(axis, indices.type.rank + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    where = build.reshape(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    places = build.iota(shape, axis, indices.type.dtype)
    test = build.compare(places, "eq", where)
    return build.select(test, build.reshape(on, ()), build.reshape(off, ()))


@operator("MATRIX_DIAG")
def matrix_diag(call: TFLiteCall) -> Node:
    """Matrices that have the last axis on their diagonal, zeros elsewhere."""
    x = call[0]
    size = x.shape[-1]
    shape = (*x.shape, size)
    rank = len(shape)
    test = build.compare(build.iota(shape, rank - 2), "eq", build.iota(shape, rank - 1))
    return build.select(test, build.spread(x, shape, range(rank - 1)), 0)


@operator("MATRIX_SET_DIAG")
def matrix_set_diag(call: TFLiteCall) -> Node:
    """Matrices with their diagonals replaced."""
    x, diagonal = call[0], call[1]
    rank = x.type.rank
    rows, columns = x.shape[-2:]
    test = build.compare(build.iota(x.shape, rank - 2), "eq", build.iota(x.shape, rank - 1))
    if rows == columns or rows == diagonal.shape[-1]:
        spread = build.spread(diagonal, x.shape, range(rank - 1))
    else:
        spread = build.spread(diagonal, x.shape, (*range(rank - 2), rank - 1))
    return build.select(test, spread, x)
