"""The weights of a Winograd convolution, packed in panels: nine taps of each channel. See
`winograd.py`.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.codegen.core.contraction import packing, panel_kernel
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource, merge
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.target import Target


def contraction(t: Tiling, seen: Scratch, kernel: OperandView) -> Contraction:
    """Tiles times untransformed weights, at one point."""
    taps = tuple(Axis(toom_cook.TAPS, 0, step) for step in kernel.strides[:2])
    return Contraction(
        (),
        (Axis(1), Axis(t.tiles, t.channels)),
        Axis(t.columns, 0, kernel.strides[3]),
        (Axis(t.channels, 1, kernel.strides[2]), *taps),
        OperandSource(seen, DType.F32),
        OperandSource(kernel.value, DType.F32, kernel.offset),
        DType.F32,
        lambda outer, rows, column: (build.index(0), *rows, column),
    )


def packed(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    given: Contraction,
    kernel: OperandView,
    schedule: WinogradSchedule,
) -> tuple[Panels, tuple[KernelLaunch, ...]]:
    """The panels, and the kernel that packs weights that are not known at compile time."""
    if given.right.constant:
        return packing.constant(given, schedule.tile, DType.F32, kernel.folded), ()
    # only the order of the weights matters here: contiguous taps are merged into one axis
    axes = merge([Axis(axis.extent, 0, axis.right) for axis in given.inner])
    launch, panels = panel_kernel.running(
        group,
        target,
        f"{name}_pack",
        decisions,
        replace(given, inner=axes),
        schedule.tile,
        DType.F32,
    )
    return replace(panels, inner=given.inner), (launch,)
