"""Histograms with bins of equal width."""

from __future__ import annotations

from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten("histc")
def histc(call: AtenCall, x: Node, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Node:
    """The number of elements of x in each of `bins` intervals of [min, max], in the element type of
    x.

    Elements outside and NaNs are not counted; the last interval is closed. If the bounds are equal
    they are those of the data, widened by one on each side if these are equal, too.
    """
    flat = build.reshape(x, (-1,)) if x.type.rank != 1 else x
    low, high = (call.node(bound, x.type.dtype) for bound in (min, max))
    if min == max and flat.shape[0] != 0:
        low, high = (build.reduce(flat, combine, 0) for combine in ("min", "max"))
    equal = build.compare(low, "eq", high)
    low = build.select(equal, build.sub(low, 1), low)
    high = build.select(equal, build.add(high, 1), high)
    within = build.apply1("and", build.compare(low, "le", flat), build.compare(flat, "le", high))
    # the order of PyTorch's operations, as their rounding decides at the bins' edges
    place = build.div(build.mul(build.sub(flat, low), float(bins)), build.sub(high, low))
    place = build.cast(build.select(within, place, 0), DType.I64)
    last = build.constant(bins - 1, DType.I64)
    counts = build.apply1(
        "scatter_elements",
        build.full(0, (bins,), DType.I64),
        build.select(build.compare(place, "gt", last), last, place),
        build.cast(within, DType.I64),
        axis=0,
        combine="add",
    )
    return build.cast(counts, call.dtype)
