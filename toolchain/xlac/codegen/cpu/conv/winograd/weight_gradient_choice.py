"""Chooses whether the gradient for the weights of a 3x3 convolution is computed by Winograd's
algorithm, and its schedule. Both decide how sums round, so only shipped facts are read.
"""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import check_threads, share
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.choose import is_plain, product_cycles
from xlac.codegen.cpu.conv.winograd.tiling import WeightTiling
from xlac.codegen.cpu.gemm.choose import LONG_EPILOGUE
from xlac.codegen.schedules.conv import WinogradWeightsSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

MOST = 256 << 20  # bytes of transformed tiles beyond which the direct sum, in place, is preferred


def tiling(anchor: Node, target: Target) -> WeightTiling | None:
    """The gradient in tiles; None if it is none, or if Winograd does not support it."""
    op, (x, kernel) = anchor.op, anchor.inputs
    assert isinstance(op, Conv)
    lanes = target.lanes(DType.F32)
    if (
        not target.vector_bytes
        or not is_plain(anchor)
        or kernel.type.dtype is not DType.F32
        or anchor.shape[1:3] != (toom_cook.TAPS, toom_cook.TAPS)
    ):
        return None
    channels, height, width, batch = (int(n) for n in x.shape if isinstance(n, int))
    down, across, _, columns = (int(n) for n in kernel.shape if isinstance(n, int))
    if channels % lanes or columns % lanes or min(down, across) <= toom_cook.TAPS:
        return None
    return WeightTiling(
        batch,
        (height, width),
        (op.low[0], op.low[1]),
        (down, across),
        channels,
        columns,
        not target.fast,
    )


def pays(t: WeightTiling, target: Target) -> bool:
    """Whether a tiling takes fewer estimated cycles than the direct sum, and may take more code and
    memory.
    """
    target = target.shipped
    kept = t.points * t.tiles * (t.channels + t.columns) * DType.F32.nbytes
    return not target.size and kept <= MOST and _cycles(t, target) < _direct(t, target)


def _cycles(t: WeightTiling, target: Target) -> float:
    """Estimated cycles over all threads: products, transforms, and moving what is transformed,
    which is written and read.
    """
    hardware, lanes = target.hardware, target.lanes(DType.F32)
    products = t.points * product_cycles(target, t.channels, t.columns, t.tiles)
    vectors = t.points / lanes * (t.tiles * (t.channels + t.columns) + t.channels * t.columns)
    moved = t.points * (t.tiles * (t.channels + t.columns) + t.channels * t.columns)
    moving = 2 * moved * DType.F32.nbytes / hardware.rates("l3", target.threads)[0]
    return products + vectors * hardware.transform_cycles + moving


def _direct(t: WeightTiling, target: Target) -> float:
    """The same for the direct sum."""
    depth = t.batch * t.pixels[0] * t.pixels[1]
    return product_cycles(target, toom_cook.TAPS**2 * t.channels, t.columns, depth)


def choose(t: WeightTiling, after: Epilogue, target: Target) -> WinogradWeightsSchedule:
    """The widest vectors; threads share tiles, and input channels of the result."""
    target = target.shipped
    lanes = target.lanes(DType.F32)
    return WinogradWeightsSchedule(
        lanes,
        share(target, t.input(lanes).loops, t.points * lanes * 4),
        share(target, result_loops(t), t.points * t.columns * 4),
        after.weight > LONG_EPILOGUE,
    )


def cotangent_block(t: WeightTiling, schedule: WinogradWeightsSchedule) -> int:
    """Channels of a block of cotangents: a panel of columns of the products."""
    wide = 2 * schedule.lanes
    return schedule.lanes if t.columns % wide else wide


def result_loops(t: WeightTiling) -> list[Run]:
    """The loop over input channels of the result."""
    return [Run(t.channels, (0,))]


def check(schedule: WinogradWeightsSchedule, t: WeightTiling, target: Target) -> None:
    """Raises Misfit for a schedule that the gradient cannot have."""
    lanes, most = schedule.lanes, target.lanes(DType.F32)
    if lanes & (lanes - 1) or lanes > most:
        raise Misfit(("lanes",), f"it must be a power of two, at most {most} on this target")
    try:
        check_threads(schedule.tile_threads, 4)
    except Misfit as misfit:
        raise Misfit(("tile_threads", "loops"), misfit.problem) from None
    check_threads(schedule.threads, 1)
