"""The taps of a depthwise NCHW convolution: their weights, and which lanes of a tap's vector are
outside of x.
"""

from __future__ import annotations

from functools import reduce

from xlac.codegen.core.contraction import packing
from xlac.codegen.core.contraction.contraction import Axis, Contraction, read
from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.elements import Elements
from xlac.codegen.schedules.conv import DepthwiseNchwSchedule
from xlac.ir.dims import Dim, static
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


class PlaneTaps:
    """The sizes of a depthwise NCHW convolution, and the reads of its taps."""

    def __init__(self, sums: WindowSums) -> None:
        g, right, kernel = sums.geometry, sums.right, sums.kernel
        self.elements = Elements(Builder(), sums.group, sums.target)
        self.builder, self.target = self.elements.builder, sums.target
        self.after, self.g, self.left = sums.after, g, sums.left
        self.accumulate, self.taps = sums.accumulate, sums.taps
        self.outer, self.across = g.op.spatial[:-2], g.op.spatial[-1]
        self.down = g.op.spatial[-2] if len(g.op.spatial) > 1 else ""
        channel = Axis(g.result["C"], 0, g.kernel["O"])
        summed = tuple(Axis(self.taps[s], 0, g.kernel[s]) for s in g.op.spatial)
        c = Contraction(
            (channel,),
            (Axis(1), Axis(1)),
            Axis(1),
            summed,
            sums.left,
            right,
            self.accumulate,
            lambda o, r, n: (),
        )
        packs = right.constant and right.dtype is not DType.I8
        dtype = self.accumulate if packs else right.dtype
        whole = packing.constant(c, RegisterTile((1, 1), 1, 1), dtype, kernel.folded)
        self.weights = whole if right.constant else packing.direct(c)
        self.depth = c.depth
        (self.height,) = static((g.result[self.down] if self.down else 1,))
        self.letters = ["N", "C", *self.outer]  # counters of the axes around bands of rows
        self.held: dict[Dim, Expr] = {}  # weights held in registers, by their offset

    def follow(self, schedule: DepthwiseNchwSchedule) -> None:
        """Sets the tile sizes from a schedule."""
        self.schedule, self.lanes = schedule, schedule.lanes

    def bands(self, rows: int) -> tuple[TileSplit, list[Dim]]:
        """The loop that covers the result's rows in bands, and the extents of all loops
        over bands.
        """
        split = TileSplit(self.height, rows)
        return split, [*(self.g.result[s] for s in self.letters), split.count]

    def _step(self, letter: str) -> int:
        return self.g.op.strides[self.g.op.spatial.index(letter)]

    def _apart(self, letter: str) -> int:
        return self.g.op.rhs_dilation[self.g.op.spatial.index(letter)]

    def _weight(self, at: Expr, lanes: int) -> Expr:
        """A tap's weight broadcast to every lane."""
        return build.splat(read(self.elements, self.weights.source, at, 1, self.accumulate), lanes)

    @property
    def holds(self) -> bool:
        """Whether all weights of a channel can be loaded before its rows are computed."""
        return self.weights.packed and not self.outer

    def _mask(
        self, pixel: Expr, tap: int, lanes: int, mask: Expr | None, valid: Expr | None
    ) -> Expr | None:
        """The lanes that a tap of a vector of pixels may load; None for all."""
        parts = [mask] if mask is not None else []
        if valid is not None:
            parts.append(build.splat(valid, lanes))
        edge = self.g.edges.get(self.across)
        if edge is not None and isinstance(pixel, Const):
            (size,) = static((edge.extent,))
            begin = int(pixel.value) + tap * self._apart(self.across) - edge.low
            if begin < 0 or begin + lanes > size:
                parts.append(
                    self._valid(
                        self.across, build.ramp(build.index(begin + edge.low), 1, lanes), lanes
                    )
                )
        return (
            None
            if not parts
            else self.builder.let(
                "mask", reduce(lambda a, b: build.apply(Primitive.AND, a, b), parts)
            )
        )

    def _valid(self, letter: str, at: Expr, lanes: int) -> Expr:
        """Whether positions along an axis, counted from the start of the padding, are inside x."""
        edge = self.g.edges[letter]
        (size,) = static((edge.extent,))
        low, high = (build.splat(build.index(n), lanes) for n in (edge.low, edge.low + size))
        return build.apply(
            Primitive.AND, build.apply(Primitive.LE, low, at), build.apply(Primitive.LT, at, high)
        )
