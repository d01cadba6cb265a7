"""Chooses the tiles of depthwise NCHW convolutions, and says which they are."""

from __future__ import annotations

from xlac.codegen.core import operands, strip_mining
from xlac.codegen.core.contraction.tiling import even_split
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import check_threads
from xlac.codegen.core.strip_mining import check_vectors
from xlac.codegen.cpu.conv.nchw_taps import PlaneTaps
from xlac.codegen.cpu.threads_pay import shared
from xlac.codegen.schedules.conv import DepthwiseNchwSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint, volume
from xlac.ops.reduction.conv import Conv
from xlac_sdk.target import Target

TALL = 7  # the most rows of a tile: enough independent sums to hide a multiply-add's latency
FREE = 4  # registers besides sums and weights


def choose(taps: PlaneTaps) -> DepthwiseNchwSchedule:
    """Bands of equally many rows; weights in registers if they fit there."""
    g, target = taps.g, taps.target
    rows = even_split(taps.height, TALL).step
    lanes = strip_mining.lanes_for(target, (taps.accumulate,), g.result[taps.across])
    hold = taps.holds and size_hint(taps.depth) + TALL + FREE <= target.vector_registers
    flops = 2 * size_hint(volume((taps.depth, *g.result.values())))
    items = size_hint(volume(tuple(taps.bands(rows)[1])))
    return DepthwiseNchwSchedule(rows, lanes, hold, shared(items, flops, taps.accumulate, target))


def check(schedule: DepthwiseNchwSchedule, taps: PlaneTaps) -> None:
    """Raises Misfit for a schedule that the convolution cannot have."""
    registers = taps.target.vector_registers
    if schedule.rows > max(1, min(taps.height, registers - FREE)):
        raise Misfit(
            ("rows",), f"there are {taps.height} rows, and {registers} registers for their sums"
        )
    check_vectors(schedule.lanes, 1, False, taps.target)
    if schedule.hold_weights and not taps.holds:
        raise Misfit(("hold_weights",), "these weights are not packed, or of more than two axes")
    if schedule.hold_weights and size_hint(taps.depth) + schedule.rows + FREE > registers:
        raise Misfit(
            ("hold_weights",), f"{size_hint(taps.depth)} weights do not fit beside the sums"
        )
    check_threads(schedule.threads, 1)


def able(group: Group, target: Target, after: Epilogue) -> bool:
    """Whether the convolution is depthwise, and x, its windows and the results have stride 1 along
    the last axis.
    """
    op, (x, kernel) = group.anchor.op, group.anchor.inputs
    assert isinstance(op, Conv)
    taps = dict(zip(op.layout[1], kernel.shape, strict=True))
    shape = dict(zip(op.layout[2], group.anchor.shape, strict=True))
    known = all(
        isinstance(n, int)
        for n in (*taps.values(), *(n for letter, n in shape.items() if letter != "N"))
    )
    if not op.spatial or not known or not target.vector_bytes or target.vectorizes:
        return False
    seen = operands.resolve(x, group)
    dense = (
        seen is not None
        and seen.strides[op.layout[0].index(op.spatial[-1])] == 1
        and op.strides[-1] == 1
    )
    alone = (
        op.feature_groups == shape["C"]
        and op.feature_groups > 1
        and taps["I"] == 1
        and all(step == 1 for step in op.lhs_dilation)
    )
    along = op.layout[2].index(op.spatial[-1])
    return (
        dense
        and alone
        and size_hint(shape[op.spatial[-1]]) > 1
        and all(after.contiguous_axis(node) == along for node in group.outputs)
    )


def masks(group: Group, target: Target) -> bool:
    """Whether windows may leave x, whose loads the kernel then masks; otherwise x is copied with
    its padding.
    """
    op = group.anchor.op
    assert isinstance(op, Conv)
    return target.masked and not any(n > 0 for n in (*op.low[:-2], *op.high[:-2]))
