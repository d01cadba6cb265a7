"""The padding that Keras calls `same`."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim
from xlac.ir.op import ShapeError


def same(
    sizes: Sequence[Dim], spans: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """The elements before and after each axis, so that there are size / stride windows, rounded up;
    an odd one comes after. `spans` are what a window spans, with its dilation.
    """
    pads = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        if isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
        elif stride == 1:
            total = span - 1
        else:
            raise ShapeError(
                f"the padding 'same' of stride {stride} depends on the open size {size}",
                hint=f"--dim {size}=…",
            )
        pads.append((total // 2, total - total // 2))
    return pads
