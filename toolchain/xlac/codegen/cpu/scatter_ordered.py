"""Scattered updates combined in order, on a CPU: the result does not depend on the machine.

The innermost axis is a vector if it is an axis of the window that is contiguous in the operand;
threads may share pieces of it, because pieces never overlap. If all positions are unique, threads
may share the updates.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.loop_nest import nest, pieces_of, serial_loops
from xlac.codegen.core.scatter import Updates
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.schedules.scatter import CompensatedScatterSchedule, OrderedScatterSchedule
from xlac.ir.dims import divisor, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


class OrderedUpdates(Updates):
    """Writes the kernel that combines the updates in row-major order."""

    def write(self, schedule: OrderedScatterSchedule | CompensatedScatterSchedule) -> None:
        """The loops over the updates, with vectors along the last axis if it is divided into
        pieces.
        """
        target, builder = self.elements.target, self.builder
        if not schedule.piece:
            with nest(builder, self.loops, schedule.threads) as counters:
                self.update(
                    tuple(counters[run] for run in sorted(counters, key=lambda r: r.axes)), None
                )
            return
        *loops, columns = self.loops
        width, block = columns.extent, schedule.lanes * schedule.piece
        pieces = pieces_of(width, block)
        with nest(builder, [pieces], schedule.threads) as split:
            start = build.mul(split[pieces], block)
            length: build.Number = block if divisor(width) % block == 0 else width
            if pieces.extent != 1 and divisor(width) % block:
                stop = build.apply(Primitive.MIN, build.add(start, block), build.lift(width))
                length = builder.let("length", build.sub(stop, start))
            counter_of: dict[Run, Expr] = {}
            with serial_loops(builder, loops, counter_of):
                before = tuple(counter_of[run] for run in loops)

                def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                    for base in bases:
                        self.update((*before, build.ramp(base, 1, wide)), mask)

                strip_mine(builder, target, start, length, schedule.lanes, 1, strip)

    @property
    def loops(self) -> list[Run]:
        """The extents of the loops over all elements of the updates."""
        return [Run(n, (a,)) for a, n in enumerate(self.sizes)]

    @property
    def slides(self) -> bool:
        """Whether indices move the window along its last axis: then windows of different updates
        overlap along columns, so all of one update must be combined before the next.
        """
        axis = self._along
        return axis is not None and axis in self.op.scatter_dims_to_operand_dims

    def lies_dense(self, target: Target) -> bool:
        """Whether the last axis of the updates is an axis of the window, contiguous in x, and can
        be vectorized.
        """
        axis = self._along
        if axis is None or volume(self.shape[axis + 1 :]) != 1:
            return False
        return target.masked or not self.slides

    @property
    def _along(self) -> int | None:
        """The axis of x that corresponds to the last axis of the updates."""
        last = len(self.sizes) - 1
        return next((a for a, spot in self.window.items() if spot == last), None)
