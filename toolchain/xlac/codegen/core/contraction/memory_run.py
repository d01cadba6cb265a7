"""The summed axes of a right operand that are contiguous in memory together, in any order and
direction: what a kernel that packs it can read in whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import Axis, unravel
from xlac.ir.dims import Dim, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr


@dataclass(frozen=True, slots=True)
class RunAxis:
    """An axis of a run: its place among the summed axes, its extent, the steps of the sum between
    its elements, and whether memory has them from the last to the first.
    """

    level: int
    extent: Dim
    step: Dim
    backward: bool


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """Summed axes in the order of memory, outermost first, and the offset of the first element in
    memory from that of the sum's first step.
    """

    axes: tuple[RunAxis, ...]
    first: int = 0

    @property
    def length(self) -> Dim:
        """The number of elements."""
        return volume(tuple(axis.extent for axis in self.axes))

    @property
    def levels(self) -> frozenset[int]:
        """The places of its axes among the summed axes."""
        return frozenset(axis.level for axis in self.axes)

    def step_of(self, builder: Builder, place: Expr) -> Expr:
        """The step of the sum whose element is at a place of the run."""
        if len(self.axes) == 1 and not self.axes[0].backward:
            return build.mul(place, self.axes[0].step)
        step: Expr = build.index(0)
        counters = unravel(builder, place, [axis.extent for axis in self.axes])
        for axis, counter in zip(self.axes, counters, strict=True):
            at = build.sub(axis.extent - 1, counter) if axis.backward else counter
            step = build.add(step, build.mul(at, axis.step))
        return step


def memory_run(inner: Sequence[Axis]) -> MemoryRun:
    """The longest run of summed axes that begins with neighbours; without axes if there is none."""
    steps = row_major([axis.extent for axis in inner])
    known = [
        (abs(axis.right), level)
        for level, axis in enumerate(inner)
        if isinstance(axis.right, int) and axis.extent != 1
    ]
    axes: list[RunAxis] = []
    first, size = 0, 1
    for stride, level in sorted(known):
        axis, right = inner[level], inner[level].right
        assert isinstance(right, int)
        if stride != size or (right < 0 and not isinstance(axis.extent, int)):
            break
        axes.insert(0, RunAxis(level, axis.extent, steps[level], right < 0))
        if not isinstance(axis.extent, int):
            break
        first += min(0, right) * (axis.extent - 1)
        size *= axis.extent
    return MemoryRun(tuple(axes), first)
