"""Pad (ONNX operator sets 1 to 25)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import Array, normal_axis
from xlac.ops import build

MODES = ("constant", "edge", "reflect", "wrap")


@operator("Pad")
def pad(call: OperatorCall) -> Node:
    """`pads` has the low sides of all axes, then the high ones; negative amounts crop."""
    x = call[0]
    mode = call.attr("mode", "constant")
    if mode not in MODES:
        call.fail(f"mode '{mode}' is not one of {', '.join(MODES)}")
    pads = call.ints(1, "pads" if "pads" in call.attributes else "paddings") or []
    axes = [
        normal_axis(a, x.type.rank) for a in call.ints(3, default=list(range(x.type.rank))) or []
    ]
    if len(pads) != 2 * len(axes):
        call.fail(f"{len(pads)} pads do not fit {len(axes)} axes")
    low, high = [0] * x.type.rank, [0] * x.type.rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        low[axis], high[axis] = before, after
    check_size(
        [size + a + b for size, a, b in zip(x.shape, low, high, strict=True)], x.type.dtype.nbytes
    )
    if mode == "constant":
        given = call.get(2)
        value = (
            build.constant(call.attr("value", 0.0), x.type.dtype)
            if given is None
            else build.reshape(given, [])
        )
        return build.pad(x, value, low, high)
    return _by_index(x, mode, low, high)


def _by_index(x: Node, mode: str, low: Sequence[int], high: Sequence[int]) -> Node:
    """Pads by gathering each axis at the indices of the mode."""
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = x.shape[axis]
        if before or after:
            assert isinstance(size, int)
            x = build.take(x, build.constant(positions(mode, size, before, after)), axis)
    return x


def positions(mode: str, size: int, before: int, after: int) -> Array:
    """The source index of each position of a padded axis."""
    at = np.arange(-before, size + after, dtype=np.int64)
    match mode:
        case "edge":
            return np.clip(at, 0, max(0, size - 1))
        case "wrap":
            return at % max(1, size)
    if size == 1:
        return np.zeros_like(at)
    period = 2 * (size - 1)
    folded = at % period
    return np.where(folded < size, folded, period - folded)
