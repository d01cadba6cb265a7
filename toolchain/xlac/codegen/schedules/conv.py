"""The schedule of a convolution's algorithm, which comes before those of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.schedules.depthwise import DepthwiseNchwSchedule, DepthwiseNhwcSchedule
from xlac.codegen.schedules.gemm import CONTRACTIONS
from xlac.codegen.schedules.gpu.gemm import GPU_CONTRACTIONS
from xlac.codegen.schedules.gpu.threads import GpuDepthwiseSchedule
from xlac.codegen.schedules.schedule import Schedule
from xlac.codegen.schedules.winograd import WinogradSchedule

ConvAlgorithm = Literal["contraction", "depthwise", "winograd"]


@dataclass(frozen=True, slots=True)
class ConvAlgorithmSchedule(Schedule):
    """The algorithm of a convolution that several can compute: a `contraction` over windows, whose
    rows are pixels and whose columns are output channels; a sum for each channel, for `depthwise`
    convolutions; or `winograd`, fewer multiplications for 3x3 kernels.
    """

    template: ClassVar[str] = "conv_algorithm"
    algorithm: ConvAlgorithm


DEPTHWISE = (DepthwiseNchwSchedule, DepthwiseNhwcSchedule, GpuDepthwiseSchedule)


def algorithm_of(kernel: Schedule | None) -> ConvAlgorithm | None:
    """The algorithm that the schedule of a convolution's kernel belongs to; None if there is no
    schedule, or if it belongs to none.
    """
    if isinstance(kernel, (*CONTRACTIONS, *GPU_CONTRACTIONS)):
        return "contraction"
    if isinstance(kernel, DEPTHWISE):
        return "depthwise"
    return "winograd" if isinstance(kernel, WinogradSchedule) else None
