"""Where values of one row are kept between the passes over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.addressing import row_major
from xlac.ir.dims import Dim, Shape, ceil_div, upper_bound
from xlac_sdk.kernel_ir.kernel import Buffer


@dataclass(frozen=True, slots=True)
class Home:
    """A buffer that keeps values for later passes, with a stride for each axis of the space.

    One on the stack is written and read in `whole` vectors, with room for lanes that are masked
    elsewhere: what is written under a mask is not forwarded to the load that follows, nor kept in a
    register.
    """

    buffer: Buffer
    strides: Shape
    whole: bool


def on_stack(
    shape: Shape, vector: Run | None, others: Sequence[Run], block: int
) -> tuple[Shape, int]:
    """The strides of values on the stack, by axis, and the most elements that they take: those
    along the `vector` loop are consecutive, in blocks of `block`, then those of the `others`.
    """
    step: Dim = 1
    strides: list[Dim] = [0] * len(shape)
    for run in [vector, *reversed(others)]:
        if run is None:
            continue
        for axis, inner in zip(run.axes, row_major([shape[a] for a in run.axes]), strict=True):
            strides[axis] = step * inner
        step = step * (ceil_div(run.extent, block) * block if run is vector else run.extent)
    return tuple(strides), upper_bound(step)
