"""A program whose temporaries have no place in the arena yet: what they take is known, so that
orders of its groups can be compared before one is placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.memory.arena import LiveRange, live_bound, pack
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.programs.rewrite import with_slots


@dataclass(frozen=True, slots=True, eq=False)
class UnplacedProgram:
    """A program, when each of its temporaries is alive, and for each group of its graph the most
    memory that it has for itself: what is not there before it, or not after.
    """

    program: Program
    spans: Mapping[Slot, LiveRange]
    needs: Sequence[int]

    @property
    def live_bytes(self) -> int:
        """The most that temporaries take at one step: no arena is smaller."""
        return live_bound(list(self.spans.values()))

    def placed(self) -> Program:
        """The program with every temporary in its place."""
        layout = pack(list(self.spans.values()))
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
