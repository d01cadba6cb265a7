"""A program whose temporaries have no places in the arena yet; the bytes it needs are known, so
that orders of its groups can be compared before one is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.fusion.group import Partition
from xlac.memory.arena import ALIGN, LiveRange, live_peak, pack
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.programs.rewrite import with_slots


@dataclass(frozen=True, slots=True, eq=False)
class UnplacedProgram:
    """A program, the lifetimes of its temporaries, and for each group of its graph the bytes of
    temporaries that live within it alone, and its first and last step.
    """

    program: Program
    spans: Mapping[Slot, LiveRange]
    needs: Sequence[int]
    times: Sequence[tuple[int, int]]

    @property
    def live_bytes(self) -> int:
        """The most bytes of temporaries alive at one step: a lower bound for the arena."""
        return live_peak(list(self.spans.values()))[0]

    @property
    def peak_step(self) -> int:
        """The first step at which that many are alive."""
        return live_peak(list(self.spans.values()))[1]

    def aligned(self, alignment: int) -> UnplacedProgram:
        """The program with temporaries and state at multiples of so many bytes, a power of two."""
        if alignment <= ALIGN:
            return self
        moved, state = dict[Slot, Slot](), 0
        for slot in self.program.slots:
            if slot.role is Role.STATE:
                moved[slot] = replace(slot, align=alignment, offset=state)
                state += -(-slot.nbytes // alignment) * alignment
            elif slot.role is Role.TEMPORARY:
                moved[slot] = replace(slot, align=alignment)
        program = replace(
            self.program,
            slots=tuple(moved.get(slot, slot) for slot in self.program.slots),
            steps=with_slots(self.program.steps, moved),
            state_bytes=state,
        )
        # places are sums of the sizes of others
        spans = {
            moved[slot]: replace(span, nbytes=-(-span.nbytes // alignment) * alignment)
            for slot, span in self.spans.items()
        }
        return replace(self, program=program, spans=spans)

    def placed(self, within: int | None = None) -> Program:
        """The program with every temporary in its place, in an arena `within` so many bytes where
        such a layout is found.
        """
        layout = pack(list(self.spans.values()), within)
        moved = {
            slot: replace(slot, offset=o)
            for slot, o in zip(self.spans, layout.offsets, strict=True)
        }
        program = self.program
        return replace(
            program,
            slots=tuple(moved.get(slot, slot) for slot in program.slots),
            steps=with_slots(program.steps, moved),
            arena_bytes=layout.nbytes,
            facts={**program.facts, "live_bytes": layout.bound},
        )


Planner = Callable[[Partition], UnplacedProgram]
"""The memory plan of a partition: `planner.unplaced`."""
