"""Elements taken by their indices."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("GATHER", "GatherOptions")
def gather(call: TFLiteCall) -> Node:
    """Slices of x along an axis; the first `batch_dims` axes of x and indices are matched."""
    x, indices = call[0], call[1]
    batch = call.option("batch_dims")
    batch = batch + indices.type.rank if batch < 0 else batch
    axis = normal_axis(call.option("axis"), x.type.rank)
    if not 0 <= batch <= min(axis, indices.type.rank):
        call.fail(f"{batch} batch axes do not fit {x.type} and {indices.type}")
    if not batch:
        return build.take(x, indices, axis)
    inner = [*range(batch, axis), *range(axis + 1, x.type.rank)]
    offset = [
        *range(batch, axis),
        *range(axis + indices.type.rank - batch, x.type.rank - 1 + indices.type.rank - batch),
    ]
    return build.apply1(
        "gather",
        x,
        build.reshape(indices, (*indices.shape, 1)),
        offset_dims=offset,
        collapsed_slice_dims=(axis,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        start_index_map=(axis,),
        index_vector_dim=indices.type.rank,
        slice_sizes=tuple(x.shape[a] if a in inner else 1 for a in range(x.type.rank)),
    )


@operator("GATHER_ND")
def gather_nd(call: TFLiteCall) -> Node:
    """Slices of x at index vectors along the last axis of the second input."""
    return build.apply1("gather_nd", call[0], call[1])


@operator("TOPK_V2")
def top_k(call: TFLiteCall) -> tuple[Node, ...]:
    """The k largest elements along the last axis, and their indices."""
    (k,) = call.ints(1)
    top = build.apply("topk", call[0], k=k, axis=-1, largest=True)
    assert isinstance(top, tuple)
    return top[0], build.cast(top[1], call.dtype(1))


@operator("CUMSUM", "CumsumOptions")
def cumulative_sum(call: TFLiteCall) -> Node:
    """Sums of all elements up to each one, along an axis."""
    (axis,) = call.ints(1)
    x = call.real(0)
    exclusive, reverse = call.option("exclusive"), call.option("reverse")
    return call.give(build.apply1("cumsum", x, axis=axis, exclusive=exclusive, reverse=reverse))


def _arg(name: str, mnemonic: str, options: str) -> None:
    @operator(name, options)
    def arg(call: TFLiteCall) -> Node:
        """The index of the extreme element along an axis, the first of equal ones."""
        (axis,) = call.ints(1)
        return build.cast(build.apply1(mnemonic, call[0], axis=axis), call.dtype())


_arg("ARG_MAX", "argmax", "ArgMaxOptions")
_arg("ARG_MIN", "argmin", "ArgMinOptions")


@operator("BUCKETIZE", "BucketizeOptions")
def bucketize(call: TFLiteCall) -> Node:
    """The number of boundaries, which are ascending, that are at most each element."""
    x, boundaries = call[0], call.option("boundaries")
    edges = build.constant(np.asarray(boundaries, np.float32))
    wide = build.reshape(build.floating(x), (*x.shape, 1))
    reached = build.cast(build.compare(wide, "ge", edges), DType.I32)
    return build.cast(build.reduce(reached, "add", x.type.rank), call.dtype())
