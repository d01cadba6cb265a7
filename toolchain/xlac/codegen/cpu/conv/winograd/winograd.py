"""3x3 convolutions with fewer multiplications (Winograd).

The result is divided into tiles of 2 by 2 or 4 by 4 pixels. A first kernel transforms the 4 by 4 or
6 by 6 input pixels of each tile to Winograd points (`toom_cook.py`), for every channel. A second
kernel takes a block of tiles and a panel of columns: it transforms the weights too, multiplies, at
every point, tiles by channels with channels by columns, and applies the output transform to the
products, which are still in the second-level cache. The products per result are 4/9 (2 by 2) or 1/4
(4 by 4) of those of the direct sum. Weights are stored untransformed: transformed they would take
16/9 or 4 times the memory.

The error of a result is bounded relative to the largest pixel of its tile, so one infinite or NaN
pixel would spoil the whole tile. So by default tiles are 2 by 2, whose error is below that of the
direct sum for pixels of similar magnitude, and the first kernel marks tiles with other pixels
(`accuracy_guard.py`), which the second sums directly (`direct_tiles.py`). With `precision: fast`,
tiles may be 4 by 4 and there is no guard.

Where the target's `temporary_bytes` has no room for all tiles at their points, the two kernels take
a part of the batch at a time.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import fused_gemm_output_transform, input_transform, weights
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Guard
from xlac.codegen.cpu.conv.winograd.choose import check, choose, of_part
from xlac.codegen.cpu.conv.winograd.tiling import CHANNELS, Tiling
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


def takes_weights(group: Group) -> bool:
    """Whether the weights are not quantised: those stay in their narrow type."""
    kernel = _weights(group)
    value = None if kernel is None else kernel.value
    return not isinstance(value, Node) or value.type.dtype is DType.F32


def _weights(group: Group) -> OperandView | None:
    """The weights as they are in memory; None if they are computed in the group."""
    weight = group.anchor.inputs[1]
    return operands.resolve(weight, group) or operands.folded(weight, group)


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, t: Tiling
) -> LoweredGroup:
    """Both kernels, after one that packs the weights if they are not known at compile time."""
    anchor = group.anchor
    kernel = _weights(group)
    after = epilogue.of(group, anchor)
    if after is None or not all(after.contiguous_axis(node) == CHANNELS for node in group.outputs):

        def alone(part: Group) -> LoweredGroup:
            return lower(part, target, name, lower_part, t)

        return operands.apart(group, anchor, alone, target, name, lower_part)
    before: list[KernelLaunch] = []
    if kernel is None:
        kernel, launches = operands.materialize(
            anchor.inputs[1], group, target, f"{name}_kernel", lower_part
        )
        before += launches
    x, copies = operands.seen(
        anchor.inputs[0], group, target, f"{name}_x", lower_part, contiguous=True
    )
    before += copies
    decisions = lower_part.decisions
    schedule = decisions.settle(name, choose(t, after, target), partial(check, t=t, target=target))
    parts = t.parts(target.temporary_bytes)
    (part, *_), seen = parts, Scratch(DType.F32, parts[0].transformed, "tiles")
    guard = Guard.of(part, kernel) if t.guarded else None
    given = weights.contraction(part, seen, kernel)
    panels, packs = weights.packed(group, target, name, decisions, given, kernel, schedule)
    both, schedule = [], of_part(schedule, part)
    for part in parts:
        own = f"{name}_{part.first}" if len(parts) > 1 else name
        both += [
            input_transform.launch(group, target, f"{own}_points", part, x, seen, guard, schedule),
            fused_gemm_output_transform.launch(
                group, target, own, after, part, x, given, panels, guard, schedule
            ),
        ]
    used = {v.value for v in (x, kernel) if isinstance(v.value, Node)}
    return LoweredGroup((*before, *packs, *both), epilogue.in_place(after, used))
