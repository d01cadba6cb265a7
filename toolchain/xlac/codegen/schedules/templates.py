"""Every template by the name that documents use."""

from __future__ import annotations

from xlac.codegen.schedules.attention import AttentionGradientSchedule, OnlineSoftmaxSchedule
from xlac.codegen.schedules.conv import (
    ConvAlgorithmSchedule,
    DepthwiseNchwSchedule,
    DepthwiseNhwcSchedule,
    WinogradSchedule,
    WinogradWeightsSchedule,
)
from xlac.codegen.schedules.elementwise import ElementwiseSchedule
from xlac.codegen.schedules.gemm import CONTRACTIONS, PackSchedule
from xlac.codegen.schedules.gpu.attention import GPU_ATTENTION
from xlac.codegen.schedules.gpu.elementwise import GpuElementwiseSchedule
from xlac.codegen.schedules.gpu.gemm import GPU_CONTRACTIONS
from xlac.codegen.schedules.gpu.order import GPU_ORDER
from xlac.codegen.schedules.gpu.reduction import GPU_REDUCTIONS
from xlac.codegen.schedules.gpu.threads import GPU_BY_THREAD
from xlac.codegen.schedules.matrix import MATRICES
from xlac.codegen.schedules.operands import OPERANDS
from xlac.codegen.schedules.random import RANDOM
from xlac.codegen.schedules.reduction import REDUCTIONS
from xlac.codegen.schedules.scatter import SCATTERS
from xlac.codegen.schedules.schedule import Schedule
from xlac.codegen.schedules.seams import SeamsSchedule
from xlac.codegen.schedules.sort import SORTS, CumulativeSchedule
from xlac.codegen.schedules.update import UpdateSchedule
from xlac.codegen.schedules.window import WindowChoiceSchedule, WindowSchedule

TEMPLATES: dict[str, type[Schedule]] = {
    each.template: each
    for each in (
        ElementwiseSchedule,
        *CONTRACTIONS,
        PackSchedule,
        ConvAlgorithmSchedule,
        *OPERANDS,
        *REDUCTIONS,
        *GPU_CONTRACTIONS,
        GpuElementwiseSchedule,
        *GPU_REDUCTIONS,
        *GPU_ATTENTION,
        *GPU_ORDER,
        *GPU_BY_THREAD,
        *SORTS,
        *MATRICES,
        OnlineSoftmaxSchedule,
        AttentionGradientSchedule,
        WinogradSchedule,
        WinogradWeightsSchedule,
        DepthwiseNchwSchedule,
        DepthwiseNhwcSchedule,
        CumulativeSchedule,
        *RANDOM,
        *SCATTERS,
        UpdateSchedule,
        WindowSchedule,
        WindowChoiceSchedule,
        SeamsSchedule,
    )
}
