"""The phases of a convolution with dilated input (lhs_dilation): sets of results whose windows use
the same taps.

With `d - 1` zeros between the input's elements, only every d-th tap of a window meets an element.
Which ones depends on the start of the window: results `step` apart form a phase, which is a
convolution of the undilated input with kernel taps `tap_step` apart. No zero is multiplied. Data
gradients of strided convolutions and transposed convolutions have this form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd

from xlac.ir.dims import upper_bound
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv

MOST = 64  # the most phases of a convolution; with more, the input is copied with its zeros


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """Results `first`, `first + step`, … (`count` of them) of one spatial axis.

    The window of the first begins at element `start` of the input (before it if negative); that of
    the next result `moves` further. It uses `taps` taps, `first_tap` and every `tap_step`-th from
    there, which are `reaches` apart in the input. Without taps the results are empty sums.
    """

    first: int
    step: int
    count: int
    start: int
    moves: int
    first_tap: int
    tap_step: int
    taps: int
    reaches: int

    @property
    def stop(self) -> int:
        """One past the last element that a window reads."""
        return self.start + (self.count - 1) * self.moves + (self.taps - 1) * self.reaches + 1


Phase = Mapping[str, AxisPhase]
"""Phases by the letter of each spatial axis along which the input is dilated."""


def phases_of(anchor: Node) -> list[Phase]:
    """The phases of a convolution; none if its input is not dilated, or those sizes
    are symbolic.
    """
    op = anchor.op
    assert isinstance(op, Conv)
    x, kernel, result = (
        dict(zip(text, shape, strict=True))
        for text, shape in zip(
            op.layout, (anchor.inputs[0].shape, anchor.inputs[1].shape, anchor.shape), strict=True
        )
    )
    spread = [n for n, gap in enumerate(op.lhs_dilation) if gap > 1]
    letters = [op.spatial[n] for n in spread]
    if not spread or not all(
        isinstance(sizes[letter], int) for sizes in (x, kernel, result) for letter in letters
    ):
        return []
    if not all(upper_bound(n) for n in (*x.values(), *kernel.values(), *result.values())):
        return []  # a size is zero: the sum or the result is empty
    along = [
        _along(op, n, upper_bound(kernel[letter]), upper_bound(result[letter]))
        for n, letter in zip(spread, letters, strict=True)
    ]
    phases = [dict(zip(letters, each, strict=True)) for each in product(*along)]
    return list(phases) if len(phases) <= MOST else []


def _along(op: Conv, axis: int, taps: int, results: int) -> list[AxisPhase]:
    """The phases along one spatial axis."""
    gap, stride = op.lhs_dilation[axis], op.strides[axis]
    reach, low = op.rhs_dilation[axis], op.low[axis]
    step, tap_step = gap // gcd(stride, gap), gap // gcd(reach, gap)
    phases = []
    for first in range(min(step, results)):
        count = (results - first + step - 1) // step
        begin = first * stride - low
        met = [k for k in range(min(tap_step, taps)) if (begin + k * reach) % gap == 0]
        tap = met[0] if met else 0
        phases.append(
            AxisPhase(
                first,
                step,
                count,
                (begin + tap * reach) // gap,
                step * stride // gap,
                tap,
                tap_step,
                (taps - tap + tap_step - 1) // tap_step if met else 0,
                tap_step * reach // gap,
            )
        )
    return phases
