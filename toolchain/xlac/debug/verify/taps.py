"""Taps: copies of the values that every group writes, taken before their memory is reused.

The steps of a tapped program are those of the program itself, with copies between them: kernels,
places and order are unchanged. The positions of the copies are found by planning the memory of the
same groups again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlac.driver import Lowered
from xlac.fusion.group import WITHOUT_KERNELS, Group, Partition
from xlac.ir.graph import Node
from xlac.memory.alternate import caches
from xlac.memory.loops.loop_kernels import with_loop_kernels
from xlac.memory.merged_launches import MergedLaunches
from xlac.memory.places import Places, Readers
from xlac.memory.planner import MemoryPlanner
from xlac.memory.unplaced import UnplacedProgram
from xlac_sdk.programs.program import Argument, Copy, Program, Role, Slot, Step, arguments

Steps = tuple[Step, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tapped:
    """A program with taps. `after` maps a node to the output that holds its value as its group
    wrote it, `before` maps a group's number and a node to the output that holds the node's value as
    the group read it.
    """

    program: Program
    after: dict[Node, str]
    before: dict[tuple[int, Node], str]


class _TappingPlanner(MemoryPlanner):
    """Plans memory as the program was planned, and inserts taps, which take no memory in the
    plan.
    """

    top: tuple[Group, ...] = ()
    reads = False

    def block(self, partition: Partition, places: Places, *rest: object) -> Steps:
        """The steps of a block; taps are inserted in the outermost one."""
        if not self.top:
            self.top = partition.groups
            self.after: dict[Node, Slot] = {}
            self.before: dict[tuple[int, Node], Slot] = {}
            block = super().block(partition, places, *rest)  # type: ignore[arg-type]
            return (*block, *self._missing(len(self.top), places))
        return super().block(partition, places, *rest)  # type: ignore[arg-type]

    def launches(
        self, group: Group, number: int, readers: Readers, places: Places, direct: Places
    ) -> Steps:
        """The group's steps between its taps."""
        if number >= len(self.top) or self.top[number] is not group:
            return tuple(super().launches(group, number, readers, places, direct))
        first = [*self._missing(number, places), *self._read(group, number, places)]
        steps = super().launches(group, number, readers, places, direct)
        return (*first, *steps, *self._written(group, places))

    def _missing(self, number: int, places: Places) -> list[Step]:
        """Taps of earlier groups that are not launches: loops, branches, claimed calls."""
        copies: list[Step] = []
        for group in self.top[:number]:
            if group.kind in WITHOUT_KERNELS:
                copies += self._written(group, places)
        return copies

    def _written(self, group: Group, places: Places) -> list[Step]:
        return [
            self._tap(self.after.setdefault(node, _slot(f"tap{len(self.after)}", node)), node, at)
            for node, at in ((n, places.get(n)) for n in group.outputs)
            if at is not None and node.type.size and node not in self.after
        ]

    def _read(self, group: Group, number: int, places: Places) -> list[Step]:
        if not self.reads:
            return []
        copies: list[Step] = []
        for node in dict.fromkeys(group.inputs):
            at = places.get(node)
            if at is not None and node.type.size and at.slot.role is Role.TEMPORARY:
                slot = _slot(f"read{len(self.before)}", node)
                self.before[number, node] = slot
                copies.append(self._tap(slot, node, at))
        return copies

    def _tap(self, slot: Slot, node: Node, at: Argument) -> Copy:
        return Copy(Argument(slot), at, node.type.size)


def _slot(name: str, node: Node) -> Slot:
    return Slot(f"{name}:", f"xlac_{name}", node.type.dtype, node.type.shape, Role.OUTPUT)


def tapped(lowered: Lowered, reads: bool = False) -> Tapped | str:
    """The program with a tap after every group and, with `reads`, one before each group for every
    value in the arena that it reads. Returns the reason as text where that is impossible.
    """
    program, model = lowered.program, lowered.model
    target = lowered.target
    planner = _TappingPlanner(
        lowered.schedules.lowered(lowered.partition),
        model.weights,
        MergedLaunches(),
        tuple(model.dims.values()),
        caches(target),
    )
    planner.reads = reads
    tapped_program = planner.program(lowered.partition, model.state)
    placed = UnplacedProgram(tapped_program, planner.lifetimes.spans(), (), ()).placed()
    placed = with_loop_kernels(placed, target)
    taps = {*planner.after.values(), *planner.before.values()}
    steps = _merged(program, placed.steps, taps)
    if isinstance(steps, str):
        return steps
    slots = tuple(taps_in_order(steps, taps))
    whole = replace(
        program,
        steps=steps,
        outputs=(*program.outputs, *slots),
        slots=(*program.slots, *slots),
        facts={k: v for k, v in program.facts.items() if k not in ("extents", "forms")},
    )
    assert whole.kernels == program.kernels, "what is verified is what runs"
    return Tapped(
        whole,
        {node: slot.name for node, slot in planner.after.items()},
        {key: slot.name for key, slot in planner.before.items()},
    )


def taps_in_order(steps: Steps, taps: set[Slot]) -> list[Slot]:
    """The slots of the taps as the steps fill them."""
    return [s.target.slot for s in steps if isinstance(s, Copy) and s.target.slot in taps]


def _merged(program: Program, planned: Sequence[Step], taps: set[Slot]) -> Steps | str:
    """The program's own steps, with the taps at their positions among the planned steps."""
    own = {slot.symbol: slot for slot in program.slots}
    merged: list[Step] = []
    steps = iter(program.steps)
    for step in planned:
        if isinstance(step, Copy) and step.target.slot in taps:
            symbol = step.source.slot.symbol
            if symbol not in own or own[symbol].offset != step.source.slot.offset:
                return f"the place of {step.source.slot.label} is not known"
            merged.append(replace(step, source=replace(step.source, slot=own[symbol])))
            continue
        real = next(steps, None)
        if real is None or not _alike(real, step):
            return "the program's steps are not those of its groups in order"
        merged.append(real)
    return "the program has more steps than its groups" if next(steps, None) else tuple(merged)


def _alike(real: Step, planned: Step) -> bool:
    """Whether two steps of two plans correspond: of one kind, on slots of the same names and
    places.
    """
    if type(real) is not type(planned):
        return False
    return [(a.slot.symbol, a.slot.offset) for a in arguments((real,))] == [
        (a.slot.symbol, a.slot.offset) for a in arguments((planned,))
    ]
