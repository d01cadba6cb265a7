"""Windowed reductions on a GPU: a thread for every result, or for a vector of results along an axis
in which the window has size 1.
"""

from __future__ import annotations

from xlac.codegen.core import window
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.window_loops import UNROLLED, WindowLoops
from xlac.codegen.gpu.core.access_width import check_lanes, vectors_of, widest_lanes
from xlac.codegen.gpu.core.grid import check_threads, every, threads_over
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gpu.threads import GpuWindowSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import Group
from xlac.ir.dims import Shape
from xlac.ops.reduction.window import Window
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Padded copies of dilated operands, if any, then one launch."""
    return window.lower(group, target, name, lower_part, _WindowByThread)


STATEMENTS = 1024  # the most window positions that are unrolled


class _WindowByThread(WindowLoops):
    """Writes the kernel: every thread finds which positions of the window are inside x."""

    @staticmethod
    def direct(op: Window, axis: int) -> bool:
        padded = op.low[axis] > 0 or op.high[axis] > 0
        return op.base_dilation[axis] == 1 and (not padded or op.window_dilation[axis] == 1)

    def write(self, shape: Shape, name: str, decisions: Decisions) -> None:
        target = self.elements.target

        def check(schedule: GpuWindowSchedule) -> None:
            self._check(schedule, shape)

        lanes = self._lanes(shape)
        written_out = self.positions <= UNROLLED and not target.size
        threads = threads_over(target, vectors_of(shape, lanes))
        schedule = decisions.settle(name, GpuWindowSchedule(lanes, written_out, threads), check)
        lanes, loops = schedule.lanes, vectors_of(shape, schedule.lanes)
        with every(self.builder, target, loops, schedule.threads) as counters:
            at: list[Expr] = [counters[run] for run in loops]
            if at:
                at[-1] = build.ramp(build.mul(at[-1], lanes), 1, lanes)
            self.several([tuple(at)], lanes, schedule.written_out)

    def _check(self, schedule: GpuWindowSchedule, shape: Shape) -> None:
        """Raises Misfit for a schedule that these windows cannot have."""
        target = self.elements.target
        if schedule.lanes > 1 and not self._lies_along(shape):
            raise Misfit(
                ("lanes",), "windows extend along the last axis, or combine in order: it must be 1"
            )
        check_lanes(schedule.lanes, shape[-1] if shape else 1, target, alone=False)
        check_threads(schedule.threads, target)
        if schedule.written_out and self.positions > STATEMENTS:
            raise Misfit(("written_out",), f"a window has {self.positions} positions")

    def _lies_along(self, shape: Shape) -> bool:
        """Whether the window has size 1 along the last axis, and combines in any order."""
        op = self.op
        narrow = op.window[-1:] == op.strides[-1:] == (1,) and op.low[-1] == op.high[-1] == 0
        return bool(shape) and op.body is None and narrow

    def _lanes(self, shape: Shape) -> int:
        """Elements along the last axis for each thread: several if the window has size 1 there."""
        if not self._lies_along(shape):
            return 1
        results = (t for n in (*self.xs, *self.group.outputs) for t in n.results)
        return widest_lanes(self.elements.target, max(t.dtype.nbytes for t in results), shape[-1])
