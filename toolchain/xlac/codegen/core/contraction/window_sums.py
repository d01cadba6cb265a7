"""What the depthwise templates of all devices start from, and the layout of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac.codegen.core.contraction import packing, panel_kernel
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource, accumulator
from xlac.codegen.core.contraction.conv_geometry import ConvGeometry
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class WindowSums:
    """A convolution, or a phase of one, whose kernel `name` sums the taps of windows one by one:
    `left` is x, `right` the weights, which came from the view `kernel`.
    """

    group: Group
    target: Target
    name: str
    decisions: Decisions
    after: Epilogue
    geometry: ConvGeometry
    left: OperandSource
    right: OperandSource
    kernel: OperandView

    @property
    def accumulate(self) -> DType:
        """The type of the sums."""
        return accumulator(self.left.dtype, self.after.anchor.type.dtype)

    @property
    def taps(self) -> Mapping[str, int]:
        """The sizes of the kernel by axis letter, which are known."""
        sizes = self.geometry.taps
        return dict(zip(sizes, static(tuple(sizes.values())), strict=True))

    def weight_panel(self, lanes: int, dtype: DType) -> tuple[list[KernelLaunch], Panels]:
        """One panel of all channels, in vectors of `lanes`, with a row for each tap: made at
        compile time, of elements of `dtype`, if the weights are constant, else by a kernel that is
        launched first.
        """
        g, right, accumulate = self.geometry, self.right, self.accumulate
        (channels,) = static((g.result["C"],))
        taps = tuple(Axis(self.taps[s], 0, g.kernel[s]) for s in g.op.spatial) or (Axis(1),)
        columns = Axis(channels, 0, g.kernel["O"])
        c = Contraction(
            (), (Axis(1), Axis(1)), columns, taps, self.left, right, accumulate, lambda o, r, n: ()
        )
        tile = RegisterTile((1, 1), -(-channels // lanes), lanes)
        if right.constant:
            return [], packing.constant(c, tile, dtype, self.kernel.folded)
        launches, panels = panel_kernel.running(
            self.group, self.target, f"{self.name}_pack", self.decisions, c, tile, accumulate
        )
        return [launches], panels
