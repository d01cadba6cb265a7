"""The phases of a convolution whose input is spread: the results whose windows meet the same taps.

Of an input with `d - 1` zeros between its elements every d-th tap of a window meets an element. Which
ones depends on where the window begins: results `step` apart form a phase, a convolution of the input
as it lies with the kernel's taps `tap_step` apart. No zero is ever multiplied. A strided
convolution's gradient for its data is such, and a transposed convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd

from xlac.ir.dims import upper_bound
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv

MOST = 64  # phases of a convolution: beyond, its input is copied with zeros between


@dataclass(frozen=True, slots=True)
class AxisPhase:
    """Results `first`, `first + step`, … (`count` of them) of one spatial axis.

    The window of the first begins at `start` of the input (before it where negative); the next
    result's is `moves` further. It meets `taps` taps, `first_tap` and every `tap_step`-th from there,
    which are `reaches` apart in the input. Without taps the results are sums of nothing.
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
        """The element after the last that a window sees."""
        return self.start + (self.count - 1) * self.moves + (self.taps - 1) * self.reaches + 1


Phase = Mapping[str, AxisPhase]
"""By the letter of a spatial axis along which the input is spread."""


def phases_of(anchor: Node) -> list[Phase]:
    """The phases of a convolution; none where its input is not spread, or sizes there are open."""
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
        return []  # nothing is summed, or nothing comes of it
    along = [
        _along(op, n, upper_bound(kernel[letter]), upper_bound(result[letter]))
        for n, letter in zip(spread, letters, strict=True)
    ]
    found = [dict(zip(letters, each, strict=True)) for each in product(*along)]
    return list(found) if len(found) <= MOST else []


def _along(op: Conv, axis: int, taps: int, results: int) -> list[AxisPhase]:
    """The phases along one spatial axis."""
    gap, stride = op.lhs_dilation[axis], op.strides[axis]
    reach, low = op.rhs_dilation[axis], op.low[axis]
    step, tap_step = gap // gcd(stride, gap), gap // gcd(reach, gap)
    found = []
    for first in range(min(step, results)):
        count = (results - first + step - 1) // step
        begin = first * stride - low
        met = [k for k in range(min(tap_step, taps)) if (begin + k * reach) % gap == 0]
        tap = met[0] if met else 0
        found.append(
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
    return found
