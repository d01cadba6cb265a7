"""The weights of a depthwise convolution, laid out by tap and channel."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.codegen.core.contraction import packing, panel_kernel
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource
from xlac.codegen.core.contraction.conv_geometry import ConvGeometry
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


def weight_panel(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    g: ConvGeometry,
    left: OperandSource,
    right: OperandSource,
    kernel: OperandView,
    taps: Mapping[str, int],
    lanes: int,
    accumulate: DType,
    packed: DType,
) -> tuple[list[KernelLaunch], Panels]:
    """One panel of all channels, in vectors of `lanes`, with a row for each tap: made at compile
    time, of element type `packed`, if the weights are constant, else by a kernel launched first.
    """
    (channels,) = static((g.result["C"],))
    by_tap = tuple(Axis(taps[s], 0, g.kernel[s]) for s in g.op.spatial) or (Axis(1),)
    by_channel = Axis(channels, 0, g.kernel["O"])
    c = Contraction(
        (), (Axis(1), Axis(1)), by_channel, by_tap, left, right, accumulate, lambda o, r, n: ()
    )
    tile = RegisterTile((1, 1), -(-channels // lanes), lanes)
    if right.constant:
        return [], packing.constant(c, tile, packed, kernel.compute, kernel.key)
    made, panels = panel_kernel.running(
        group, target, f"{name}_pack", decisions, c, tile, accumulate
    )
    return [made], panels
