"""Copies and conversions of element types."""

from __future__ import annotations

from typing import Any

from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten(
    "_to_copy",
    "clone",
    "alias",
    "lift_fresh_copy",
    "lift_fresh",
    "lift",
    "contiguous",
    "prims.convert_element_type.default",
)
def converted(call: AtenCall, x: Scalar, *_: Any, **__: Any) -> Node:
    """Copies and conversions to the result's dtype, of numbers too. Memory formats are ignored."""
    return call.node(x, call.dtype)


@aten("detach", "detach_copy")
def detached(call: AtenCall, x: Node) -> Node:
    """The value, as a constant for differentiation."""
    return build.apply1("stop_gradient", x)


@aten("copy")
def copy(call: AtenCall, x: Node, source: Node, non_blocking: bool = False) -> Node:
    """The source, cast and broadcast to the type of the tensor that it overwrites."""
    return call.filled(source)


@aten("view_copy.dtype", "view.dtype")
def reinterpreted(call: AtenCall, x: Node, dtype: DType) -> Node:
    """A bitcast to another dtype; the last axis grows or shrinks by the ratio of widths."""
    if dtype.bits == x.type.dtype.bits:
        return build.apply1("bitcast", x, dtype=dtype)
    if dtype.bits < x.type.dtype.bits:
        return build.reshape(build.apply1("bitcast", x, dtype=dtype), call.shape)
    times = dtype.bits // x.type.dtype.bits
    return build.apply1("bitcast", build.reshape(x, (*call.shape, times)), dtype=dtype)
