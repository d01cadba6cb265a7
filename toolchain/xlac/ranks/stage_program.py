"""The programs of the stages of a pipeline, to be built ahead of time: what a program of a stage
consists of. `stage_steps.py` fills it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.pipelining.plan import Phase
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Program, Role, Slot, Step
from xlac_sdk.programs.rewrite import with_unique_kernels

ALIGN = 64  # bytes


@dataclass(eq=False)
class StagePrograms:
    """What the programs of all stages share: the slots of callers, the tensors of the state by
    name, what callers would give as numbers of micro-batches, names of kernels, and the numbers of
    exchanges. `phases` are the programs of all phases, `axis` that of the mesh along which stages
    are.
    """

    axis: str
    phases: Mapping[Phase, Program]
    state: Mapping[str, Slot]
    held: Mapping[str, frozenset[int]]
    numbers: Sequence[str]
    kernels: dict[str, Kernel] = field(default_factory=dict)
    exchanges: int = 0


class StageProgram:
    """Makes the program of one stage: `steps` by function, over one arena and one state."""

    def __init__(self, shared: StagePrograms, stage: int) -> None:
        self.shared, self.stage = shared, stage
        self.state = {n: s for n, s in shared.state.items() if stage in shared.held[n]}
        self.slots: dict[Slot, None] = dict.fromkeys(self.state.values())
        self.constants: dict[str, Array] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.flags: dict[str, Slot] = {}
        self.state_bytes = max((s.offset + s.nbytes for s in self.state.values()), default=0)
        self.arena_bytes = 0
        self._known: dict[tuple[Any, ...], Slot] = {}  # constants by their data
        self._scratch: dict[Slot, Slot] = {}  # state that belongs to a kernel
        self._phases: dict[Phase, Program] = {}

    def phase(self, phase: Phase) -> Program:
        """The program of a phase, with kernels of unique names."""
        if phase not in self._phases:
            program = self.shared.phases[phase]
            self._phases[phase] = with_unique_kernels(program, self.shared.kernels)
        return self._phases[phase]

    def added(self, slot: Slot) -> Slot:
        """Adds a slot, whose symbol becomes unique among all stages."""
        made = replace(slot, symbol=f"stage{self.stage}_{len(self.slots)}_{slot.symbol}")
        self.slots[made] = None
        return made

    def constant(self, slot: Slot, data: Array) -> Slot:
        """A constant, of which equal ones are stored once."""
        key = (fingerprint(data), slot.dtype, slot.shape)
        if key not in self._known:
            self._known[key] = self.added(replace(slot, role=Role.CONSTANT, offset=0))
            self.constants[self._known[key].symbol] = data
        return self._known[key]

    def scratch(self, slot: Slot) -> Slot:
        """A tensor of the state without a name, which belongs to a kernel."""
        if slot not in self._scratch:
            offset = -(-self.state_bytes // slot.align) * slot.align
            self._scratch[slot] = self.added(replace(slot, offset=offset))
            self.state_bytes = offset + slot.nbytes
        return self._scratch[slot]

    def program(self, name: str, main: str, facts: Mapping[str, Any]) -> Program:
        """The program, whose own steps are those of the function `main`."""
        io = [s for s in self.slots if s.role in (Role.INPUT, Role.OUTPUT)]
        return Program(
            name,
            tuple(s for s in io if s.role is Role.INPUT),
            tuple(s for s in io if s.role is Role.OUTPUT),
            tuple(self.slots),
            self.steps[main],
            self.constants,
            self.arena_bytes,
            self.state_bytes,
            facts={**facts, "live_bytes": self.arena_bytes},
        )


def placed_state(
    tensors: Mapping[str, Type], held: Mapping[str, frozenset[int]]
) -> dict[str, Slot]:
    """The tensors of the state, each at one offset on all ranks that hold it, as low as others of
    these ranks let it be.
    """
    offsets: dict[str, int] = {}
    ends: list[tuple[int, int, frozenset[int]]] = []
    for name in sorted(tensors, key=lambda one: -len(held[one])):
        size, at = tensors[name].nbytes, 0
        others = sorted((b, e) for b, e, ranks in ends if ranks & held[name])
        for begin, end in others:
            if begin >= at + size:
                break
            at = max(at, -(-end // ALIGN) * ALIGN)
        offsets[name] = at
        ends.append((at, at + max(size, 1), held[name]))
    return {
        name: Slot(name, f"state{n}", type.dtype, type.shape, Role.STATE, offsets[name], ALIGN)
        for n, (name, type) in enumerate(tensors.items())
    }
