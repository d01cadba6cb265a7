"""Windows on a GPU: a thread for every result, or for a vector of them along an axis that the
window does not cross.
"""

from __future__ import annotations

from xlac.codegen.core import window
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.window_loops import UNROLLED, WindowLoops
from xlac.codegen.gpu.core.grid import every, power_of_two
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ir.dims import Shape, divisor, size_hint
from xlac.ops.reduction.window import Window
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Copies of operands that the window's padding is spread into, if any, then one launch."""
    return window.lower(group, target, name, lower_part, _WindowByThread)


class _WindowByThread(WindowLoops):
    """Writes the kernel: every thread finds which positions of the window lie inside x."""

    @staticmethod
    def direct(op: Window, axis: int) -> bool:
        padded = op.low[axis] > 0 or op.high[axis] > 0
        return op.base_dilation[axis] == 1 and (not padded or op.window_dilation[axis] == 1)

    def write(self, shape: Shape, name: str, decisions: Decisions) -> None:
        written_out = self.positions <= UNROLLED and not self.elements.target.size
        lanes = self._lanes(shape)
        loops = [Run(n // lanes if a == len(shape) - 1 else n, (a,)) for a, n in enumerate(shape)]
        with every(self.builder, self.elements.target, loops) as counters:
            at: list[Expr] = [counters[run] for run in loops]
            if at:
                at[-1] = build.ramp(build.mul(at[-1], lanes), 1, lanes)
            self.several([tuple(at)], lanes, written_out)

    def _lanes(self, shape: Shape) -> int:
        """Elements along the last axis that a thread takes: several, where the window is one
        element wide there.
        """
        op = self.op
        if (
            not shape
            or op.body is not None
            or not (op.window[-1] == op.strides[-1] == 1 and op.low[-1] == op.high[-1] == 0)
        ):
            return 1
        target, widest = (
            self.elements.target,
            max(t.dtype.nbytes for n in (*self.xs, *self.group.outputs) for t in n.results),
        )
        lanes = power_of_two(
            min(max(1, target.access_bytes // widest), max(1, size_hint(shape[-1])))
        )
        while divisor(shape[-1]) % lanes:
            lanes //= 2
        return lanes
