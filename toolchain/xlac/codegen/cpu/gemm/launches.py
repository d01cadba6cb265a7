"""The kernels of a canonical contraction and its epilogue, as their schedule says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from xlac.codegen.core.contraction import packing, panel_kernel
from xlac.codegen.core.contraction.byte_words import in_words
from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.gemm import autovectorized
from xlac.codegen.cpu.gemm.choose import check, choose, every_template
from xlac.codegen.cpu.gemm.gemm import Gemm
from xlac.codegen.cpu.gemm.inner_product import InnerProduct
from xlac.codegen.cpu.gemm.matrix_unit.matrix_gemm import MatrixGemm
from xlac.codegen.cpu.gemm.streamed import StreamedGemm
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gemm import (
    CONTRACTIONS,
    AutovectorizedSchedule,
    BytesGemmSchedule,
    ContractionSchedule,
    GemmSchedule,
    InnerProductSchedule,
    MatrixGemmSchedule,
    StreamedGemmSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def launches(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    c: Contraction,
    after: Epilogue,
    right: OperandView,
) -> list[KernelLaunch]:
    """The kernels of a contraction and its epilogue. `right` is the view that the right operand
    came from.
    """
    fits = partial(check, c=c, after=after, view=right, target=target)
    schedule: ContractionSchedule = decisions.settle(
        name,
        choose(c, after, right, target),
        fits,
        CONTRACTIONS,
        partial(every_template, c, after, right, target),
    )
    elements = Elements(Builder(), group, target)
    if isinstance(schedule, StreamedGemmSchedule):
        StreamedGemm(elements, after, c, right, schedule).write()
        return [elements.launch(name, cost.work(group))]
    c = c.swapped() if schedule.swap else c
    match schedule:
        case InnerProductSchedule():
            InnerProduct(elements, after, c, schedule).write()
        case AutovectorizedSchedule():
            panels = packing.direct(c)
            if schedule.right == "constant":
                tile = autovectorized.tile(schedule)
                panels = packing.constant(c, tile, c.right.dtype, right.folded)
                c, panels = panels.merged(c)
            autovectorized.AutovectorizedGemm(elements, after, c, panels, schedule).write()
        case GemmSchedule():
            if isinstance(schedule, BytesGemmSchedule):
                c = in_words(c, schedule.dtype)
            return _gemm(group, target, name, decisions, c, after, right, schedule)
    return [elements.launch(name, cost.work(group))]


def _gemm(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    c: Contraction,
    after: Epilogue,
    view: OperandView,
    schedule: GemmSchedule,
) -> list[KernelLaunch]:
    panels, before = _panels(group, target, name, decisions, c, view, schedule)
    unpacked = c
    if panels.packed:
        c, panels = panels.merged(c)

    def written(name: str, backward: bool) -> KernelLaunch:
        elements = Elements(Builder(), group, target)
        kind = MatrixGemm if isinstance(schedule, MatrixGemmSchedule) else Gemm
        gemm = kind(elements, after, c, panels, schedule, backward)
        gemm.unpacked = unpacked if schedule.right == "panel" else None
        gemm.write()
        return elements.launch(name, cost.work(group))

    forward = written(name, backward=False)
    if schedule.backward:
        forward = replace(
            forward, backward=lambda: written(f"{name}_backward", backward=True).kernel
        )
    return [*before, forward]


def _panels(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    c: Contraction,
    view: OperandView,
    schedule: GemmSchedule,
) -> tuple[Panels, list[KernelLaunch]]:
    """The panels of the right operand, and the launches that pack them."""
    match schedule.right:
        case "direct":
            return packing.direct(c), []
        case "constant":
            tile, dtype = schedule.tile, schedule.dtype
            return packing.constant(c, tile, dtype, view.folded), []
        case "running":
            launch, panels = panel_kernel.running(
                group, target, f"{name}_pack", decisions, c, schedule.tile, schedule.dtype
            )
            return panels, [launch]
        case "panel":
            steps = schedule.blocking.chunk or c.depth
            return packing.one_panel(c, schedule.tile, schedule.dtype, steps), []
