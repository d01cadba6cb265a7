"""Windowed reductions on a CPU: vectors of results along the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import window
from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.loop_nest import check_threads, nest, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.core.window_loops import UNROLLED, WindowLoops
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import SERIAL, Misfit
from xlac.codegen.schedules.window import WindowSchedule
from xlac.fusion.group import Group
from xlac.ir.dims import Shape, size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target

VECTORS = 4  # vectors of results at once
STATEMENTS = 1024  # the most window positions that are unrolled for each of several vectors


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """The padded copies, if any, then one kernel for the windows and their epilogue."""
    return window.lower(group, target, name, lower_part, _WindowVectors)


class _WindowVectors(WindowLoops):
    """Writes the kernel: loops over the other axes, and vectors along the last."""

    def write(self, shape: Shape, name: str, decisions: Decisions) -> None:
        builder, target = self.builder, self.elements.target
        loops = [Run(n, (a,)) for a, n in enumerate(shape[:-1]) if n != 1]

        def check(schedule: WindowSchedule) -> None:
            self._check(schedule, shape, len(loops))

        schedule = decisions.settle(name, self._choose(shape, loops), check)
        if not shape:
            self.several([()], 1, schedule.written_out)
            return
        with nest(builder, loops, schedule.threads) as counters:
            front: list[Expr] = [build.index(0)] * (len(shape) - 1)
            for run, counter in counters.items():
                front[run.axes[0]] = counter

            def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
                with self.elements.masked(mask):
                    ats = [(*front, build.ramp(base, 1, wide)) for base in bases]
                    self.several(ats, wide, schedule.written_out)

            strip_mine(builder, target, 0, shape[-1], schedule.lanes, schedule.unroll, body)

    def _choose(self, shape: Shape, loops: Sequence[Run]) -> WindowSchedule:
        """Several vectors at once if only a sum or an extreme is computed."""
        target = self.elements.target
        written_out = self.positions <= UNROLLED and not target.size
        if not shape:
            return WindowSchedule(1, 1, written_out, SERIAL)
        dtypes = [t.dtype for n in (*self.group.nodes, *self.group.inputs) for t in n.results]
        lanes = lanes_for(target, dtypes, shape[-1])
        several = target.vector_bytes and not target.size and self.op.body is None
        threads = share(target, loops, size_hint(shape[-1]) * self.positions * 2)
        return WindowSchedule(lanes, VECTORS if several else 1, written_out, threads)

    def _check(self, schedule: WindowSchedule, shape: Shape, loops: int) -> None:
        """Raises Misfit for vectors that the target does not have, and for kernels that are too
        long.
        """
        check_vectors(schedule.lanes, schedule.unroll, False, self.elements.target)
        if not shape and (schedule.lanes, schedule.unroll) != (1, 1):
            raise Misfit(("lanes",), "there is one result: lanes and unroll are 1")
        if schedule.written_out and self.positions * schedule.unroll > STATEMENTS:
            raise Misfit(
                ("written_out",), f"the window has {self.positions} positions, too many for that"
            )
        check_threads(schedule.threads, loops)
