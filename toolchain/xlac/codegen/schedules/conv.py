"""Schedules of convolutions: the algorithm, which comes before their kernels, and the kernels that
are no contractions: depthwise on a CPU, and Winograd's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.gemm import CONTRACTIONS
from xlac.codegen.schedules.gpu.gemm import GPU_CONTRACTIONS
from xlac.codegen.schedules.gpu.threads import GpuDepthwiseSchedule
from xlac.codegen.schedules.schedule import Positive, Schedule, Threads

ConvAlgorithm = Literal["contraction", "depthwise", "winograd", "winograd_weights"]


@dataclass(frozen=True, slots=True)
class ConvAlgorithmSchedule(Schedule):
    """The algorithm of a convolution that several can compute: a `contraction` over windows, whose
    rows are pixels and whose columns are output channels; a sum for each channel, for `depthwise`
    convolutions; or fewer multiplications: `winograd` for 3x3 kernels, `winograd_weights` for the
    gradients for their weights.
    """

    template: ClassVar[str] = "conv_algorithm"
    algorithm: ConvAlgorithm


@dataclass(frozen=True, slots=True)
class DepthwiseNchwSchedule(Schedule):
    """NCHW: tiles of `rows` rows of a channel's result by one vector of `lanes` pixels. With
    `hold_weights`, the weights of a channel stay in registers beside a tile's sums. `threads` share
    batches, channels and bands of rows, as one loop.
    """

    template: ClassVar[str] = "depthwise_nchw"
    rows: Positive
    lanes: Positive
    hold_weights: bool
    threads: Threads


@dataclass(frozen=True, slots=True)
class DepthwiseNhwcSchedule(Schedule):
    """NHWC: tiles of `pixels` along a row by `vectors` of `lanes` channels. `threads` share
    batches, rows and panels of that many channels, as one loop. Bytes may be multiplied in
    `words` of up to four taps of a row, which pixels share.
    """

    template: ClassVar[str] = "depthwise_nhwc"
    pixels: Positive
    vectors: Positive
    lanes: Positive
    threads: Threads
    words: bool = False


@dataclass(frozen=True, slots=True)
class WinogradSchedule(Schedule):
    """A 3x3 convolution by Winograd's algorithm: tiles of `results` by `results` pixels. A first
    kernel transforms the input tiles; `input_threads` share its loops over batches, rows and
    columns of tiles. A second one multiplies, in register tiles of transformed tiles by channels of
    the result; a block of `block` of them iterates over `chunk` channels at a time, whose weights
    are transformed first. `threads` share blocks and panels of channels, as one loop.

    `unroll` and `hold` are as in `gemm`. With `epilogue_loop`, the epilogue is a loop over the
    pixels of a tile instead of unrolled.
    """

    template: ClassVar[str] = "winograd"
    results: Positive
    input_threads: Threads
    tile: RegisterTile
    block: Positive
    chunk: Positive
    unroll: tuple[Positive, Positive]
    hold: Literal["right", "fewer"]
    threads: Threads
    epilogue_loop: bool


@dataclass(frozen=True, slots=True)
class WinogradWeightsSchedule(Schedule):
    """The gradient for the weights of a 3x3 convolution by Winograd's algorithm. Two kernels
    transform tiles of the input and of the cotangents, `lanes` channels at a time; `tile_threads`
    share their loops over channels, batches, rows and columns of tiles. Products follow, as of any
    batch of matrices. A last kernel transforms them to results, for `lanes` output channels at a
    time; `threads` share its loop over input channels. With `epilogue_loop`, the epilogue is a loop
    over the nine results instead of unrolled.
    """

    template: ClassVar[str] = "winograd_weights"
    lanes: Positive
    tile_threads: Threads
    threads: Threads
    epilogue_loop: bool


DEPTHWISE = (DepthwiseNchwSchedule, DepthwiseNhwcSchedule, GpuDepthwiseSchedule)


def algorithm_of(kernel: Schedule | None) -> ConvAlgorithm | None:
    """The algorithm that the schedule of a convolution's kernel belongs to; None if there is no
    schedule, or if it belongs to none.
    """
    if isinstance(kernel, (*CONTRACTIONS, *GPU_CONTRACTIONS)):
        return "contraction"
    if isinstance(kernel, DEPTHWISE):
        return "depthwise"
    if isinstance(kernel, WinogradWeightsSchedule):
        return "winograd_weights"
    return "winograd" if isinstance(kernel, WinogradSchedule) else None
