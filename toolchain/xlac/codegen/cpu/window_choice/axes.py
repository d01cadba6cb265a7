"""The axes along which windows of a max-pooling gradient move."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ops.reduction.window_choice import SelectAndScatter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
PLACES = 64  # elements of a window, whose comparisons are unrolled
ROW = 4096  # windows along the last axis, whose selected indices are kept in a buffer on the stack


@dataclass(frozen=True, slots=True)
class MovingAxis:
    """An axis that the window moves along: `count` windows over `size` elements."""

    axis: int
    extent: int
    size: int
    count: int
    stride: int
    low: int
    dilation: int

    @property
    def reach(self) -> int:
        """The distance from the first element of a window to its last."""
        return (self.extent - 1) * self.dilation

    @property
    def hangs(self) -> bool:
        """Whether some window includes padding."""
        return self.low > 0 or (self.count - 1) * self.stride - self.low + self.reach >= self.size

    @property
    def inside(self) -> tuple[int, int]:
        """The range of windows without padding, as (first, end)."""
        first = min(self.count, max(0, -(-self.low // self.stride)))
        stop = (self.size - 1 + self.low - self.reach) // self.stride + 1
        return first, max(first, min(self.count, stop))

    @property
    def fits(self) -> bool:
        """Whether every window contains an element: then a position in padding can be replaced by
        the nearest element.
        """
        last = (self.count - 1) * self.stride - self.low
        seen = self.low <= self.reach and last < self.size
        return not self.hangs or (self.dilation == 1 and seen)

    def at(self, window: Expr, place: int) -> Expr:
        """The element at a position of a window; for padding the nearest element, which the window
        contains as well.
        """
        where = build.add(build.mul(window, self.stride), place * self.dilation - self.low)
        if not self.hangs:
            return where
        return build.apply(
            P.MIN, build.apply(P.MAX, where, build.index(0)), build.index(self.size - 1)
        )


def moving(node: Node) -> list[MovingAxis] | None:
    """The axes that the window of a node moves along; None if their sizes are symbolic."""
    op, (x, ct) = node.op, node.inputs
    assert isinstance(op, SelectAndScatter)
    axes = []
    for axis, (size, count) in enumerate(zip(x.shape, ct.shape, strict=True)):
        extent, stride, low, high = op.window[axis], op.strides[axis], op.low[axis], op.high[axis]
        if (extent, stride, low, high) == (1, 1, 0, 0):
            continue
        if not isinstance(size, int) or not isinstance(count, int):
            return None
        axes.append(MovingAxis(axis, extent, size, count, stride, low, op.window_dilation[axis]))
    return axes


def takes(node: Node, target: Target) -> bool:
    """Whether this lowering supports a node: sums of f32 or f64 over small windows that each
    contain an element.
    """
    axes = moving(node)
    if target.device != "cpu" or not axes or node.type.dtype not in (DType.F32, DType.F64):
        return False
    if 0 in node.shape or not all(axis.count and axis.fits for axis in axes):
        return False
    last = axes[-1]
    if last.axis == node.type.rank - 1:
        plane = volume(node.shape[axes[0].axis :])
        if last.count > ROW or not isinstance(plane, int) or plane >= 1 << 31:
            return False
    return prod(axis.extent for axis in axes) <= PLACES
