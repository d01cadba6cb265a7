"""Indexed writes: Scatter, ScatterElements, ScatterND, TensorScatter (ONNX operator sets 9 to
24).
"""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.tensor.indexing import counted
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType

COMBINE = {"none": "assign", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def combined(call: OperatorCall) -> str:
    """The combination of an update with the existing element, from the attribute `reduction`."""
    reduction = call.attr("reduction", "none")
    if reduction not in COMBINE:
        call.fail(f"reduction '{reduction}' is not one of {', '.join(COMBINE)}")
    return COMBINE[reduction]


def _elements(call: OperatorCall) -> Node:
    x, indices, updates = call[0], call[1], call[2]
    axis = normal_axis(call.attr("axis", 0), x.type.rank)
    there = counted(indices, x.shape[axis], x, axis)
    return build.apply1("scatter_elements", x, there, updates, axis=axis, combine=combined(call))


operator("Scatter", since=9)(_elements)
operator("ScatterElements", since=11)(_elements)


@operator("ScatterND", since=11)
def scatter_nd(call: OperatorCall) -> Node:
    """x with updates at index vectors, whose negative entries count from the end."""
    x, indices, updates = call[0], call[1], call[2]
    last = indices.type.rank - 1
    depth = indices.shape[last]
    if not isinstance(depth, int) or depth > x.type.rank:
        call.fail(f"indices of {indices.type} do not fit {x.type}")
    parts = [counted(build.cut(indices, last, n, n + 1), x.shape[n], x, n) for n in range(depth)]
    return build.apply1(
        "scatter_nd",
        x,
        build.concat(parts, -1) if parts else indices,
        updates,
        combine=combined(call),
    )


@operator("TensorScatter", since=24)
def tensor_scatter(call: OperatorCall) -> Node:
    """A cache with an update written along `axis` from each batch entry's index on; `circular`
    wraps around the end.
    """
    past, update, start = call[0], call[1], call.get(2)
    rank = past.type.rank
    axis = normal_axis(call.attr("axis", -2), rank)
    mode = call.attr("mode", "linear")
    at = build.iota(update.shape, axis)
    if start is not None:
        at = build.add(at, build.along(build.cast(start, DType.I64), 0, rank, update.shape))
    if mode == "circular":
        at = build.apply1("mod", at, build.constant(past.shape[axis], DType.I64))
    elif mode != "linear":
        call.fail(f"mode '{mode}' is neither linear nor circular")
    return build.apply1("scatter_elements", past, at, update, axis=axis, combine="assign")
