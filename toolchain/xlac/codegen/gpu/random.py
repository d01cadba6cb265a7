"""Random bits on a GPU: a thread for every block of the cipher."""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.kinds import random
from xlac.codegen.core.kinds.random import RandomBits, scalars
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu.core.grid import beside, check_threads, every, threads_over
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gpu.threads import GpuRandomSchedule
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """A launch for the bits, and one for the new state."""
    return random.lower(group, target, name, lower_part, _BitsByThread)


class _BitsByThread(RandomBits):
    """Writes the kernel for the bits."""

    def write(self, name: str, decisions: Decisions) -> None:
        layout = self.layout
        if layout.inner == 1:
            loops = [Run(layout.outer, ()), Run(layout.steps, (1,))]
        else:
            loops = [Run(layout.outer * layout.steps, ()), Run(layout.inner, (1,))]

        def check(schedule: GpuRandomSchedule) -> None:
            check_threads(schedule.threads, self.target)

        chosen = GpuRandomSchedule(threads_over(self.target, loops))
        threads = decisions.settle(name, chosen, check).threads
        (self._rows if layout.inner == 1 else self._planes)(loops[0], loops[1], threads)

    def _rows(self, row: Run, step: Run, threads: int) -> None:
        """Words of a block are contiguous in memory: a thread stores the elements of its block
        consecutively.
        """
        builder, layout = self.builder, self.layout
        with every(builder, self.target, [row, step], threads) as counters:
            number = build.add(build.mul(counters[row], layout.steps), counters[step])
            parts = self.values(number)
            place, base = (
                build.mul(counters[step], len(parts)),
                build.mul(counters[row], layout.count),
            )
            if not layout.whole or len(parts) & len(parts) - 1:
                scalars(builder, self.out, parts, base, place, layout.count)
                return
            where = build.ramp(build.add(base, place), 1, len(parts))
            align = min(len(parts) * self.out.dtype.nbytes, self.out.align)
            builder.store(self.out, where, beside(parts), align=align)

    def _planes(self, step: Run, inner: Run, threads: int) -> None:
        """Words of a block are `inner` elements apart: a thread stores one element to
        each plane.
        """
        builder, layout = self.builder, self.layout
        with every(builder, self.target, [step, inner], threads) as counters:
            s, k = counters[step], counters[inner]
            plane, p = build.div(s, layout.steps), build.mod(s, layout.steps)
            for number, part in enumerate(self.values(build.add(build.mul(s, layout.inner), k))):
                along = build.add(build.mul(p, layout.each), number)
                at = build.add(
                    build.mul(build.add(build.mul(plane, layout.count), along), layout.inner), k
                )
                if not layout.whole and number:
                    with builder.when(build.apply(Primitive.LT, along, build.lift(layout.count))):
                        builder.store(self.out, at, part)
                else:
                    builder.store(self.out, at, part)
