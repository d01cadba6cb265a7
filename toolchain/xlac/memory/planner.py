"""Lowered groups to a program: steps in order, and a place in memory for every value.

A value that the caller wants is written straight to the caller's memory, a loop's carry to the
place of the carry, a stacked result to its slice, where that is safe; all others live in the arena.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xlac.codegen.core.lowered_group import LibraryCall, PackedConstant, Scratch, Value
from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.ir.dims import Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.memory.alternate import alternated
from xlac.memory.control import Move, advance, control
from xlac.memory.host_calls import Flight, claimed
from xlac.memory.merged_launches import MergedLaunches
from xlac.memory.places import Lowerings, Places, Readers, Wanted
from xlac.memory.slots import ProgramSlots
from xlac.memory.unplaced import UnplacedProgram
from xlac.ops.tensor.leaf import Const, Param, asked, param
from xlac_sdk.programs.program import Argument, Call, Copy, Program, Role, Step
from xlac_sdk.support.limits import count_work


def planned(
    partition: Partition,
    lowerings: Lowerings,
    weights: Mapping[str, Array],
    state: Mapping[str, str] | None = None,
    sizes: Iterable[Symbol] = (),
    caches: Sequence[int] = (),
) -> tuple[Program, Sequence[int]]:
    """The program with all places assigned, and the temporary memory of each group of the graph, in
    bytes.
    """
    program = unplaced(partition, lowerings, weights, MergedLaunches(), state, sizes, caches)
    return program.placed(), program.needs


def unplaced(
    partition: Partition,
    lowerings: Lowerings,
    weights: Mapping[str, Array],
    launcher: MergedLaunches,
    state: Mapping[str, str] | None = None,
    sizes: Iterable[Symbol] = (),
    caches: Sequence[int] = (),
) -> UnplacedProgram:
    """The program of a graph whose temporaries have no places yet. `sizes` are the open sizes, each
    of which has a `max`.

    `lowerings` has the kernels of the groups: `LoweringCache.lowered` of the partition. `state`
    maps a `param` of kind "state" to the output that is its value after a call; an output called
    `<state>.next` is not given to the caller. `caches` are the sizes of the caches that
    `alternated` uses. `launcher` keeps merged kernels for other orders of the same groups.
    """
    planner = MemoryPlanner(lowerings, weights, launcher, tuple(sizes), caches)
    program = planner.program(partition, state or {})
    times = [planner.times[group] for group in partition.groups]
    needs = planner.lifetimes.inside(times)
    return UnplacedProgram(program, planner.lifetimes.spans(), needs, times)


class MemoryPlanner(ProgramSlots):
    """A program being written. Loops and branches are written by `control`."""

    def __init__(
        self,
        lowerings: Lowerings,
        weights: Mapping[str, Array],
        launcher: MergedLaunches,
        sizes: tuple[Symbol, ...] = (),
        caches: Sequence[int] = (),
    ) -> None:
        super().__init__(weights, sizes)
        self.exchanges = 0  # collectives so far
        self.lowerings, self.caches = lowerings, caches
        self.launcher = launcher
        self.times: dict[Group, tuple[int, int]] = {}  # the first and last step of each group

    # ---- the whole ---------------------------------------------------------------------------

    def program(self, partition: Partition, state: Mapping[str, str]) -> Program:
        """The program of a whole graph; its temporaries have no places yet."""
        graph = partition.graph
        params = asked(graph)
        inputs = [
            self.slot(Role.INPUT, n.type, param(n).name, f"in{i}", n.origin)
            for i, n in enumerate(params)
        ]
        hidden = {output for name, output in state.items() if output == f"{name}.next"}
        given = {name: n for name, n in graph.outputs.items() if name not in hidden}
        outputs = [
            self.slot(Role.OUTPUT, n.type, name, f"out{i}", n.origin)
            for i, (name, n) in enumerate(given.items())
        ]
        places: Places = {n: Argument(s) for n, s in zip(params, inputs, strict=True)}
        wanted = [(n, Argument(s)) for n, s in zip(given.values(), outputs, strict=True)]
        kept = self.states(graph, places)
        steps = advance(self, partition, places, _nexts(graph, state, kept), wanted)
        return Program(
            graph.name,
            tuple(inputs),
            tuple(outputs),
            (*self.slots, *self.constants.slots),
            alternated(steps, self.launcher.backwards, self.caches),
            self.constants.arrays,
            0,
            self.state_bytes,
            self.sizes,
        )

    # ---- a block: the groups of one graph ----------------------------------------------------

    def block(
        self,
        partition: Partition,
        places: Places,
        wanted: Wanted,
        replaced: Mapping[Argument, Node] | None = None,
    ) -> tuple[Step, ...]:
        """Writes the steps that compute a graph; on return every wanted value is in its place. For
        `replaced` see `Readers`.
        """
        readers = Readers.of(partition, self.lowerings, replaced)
        direct: Places = {}
        for node, place in wanted:
            direct.setdefault(readers.value(node), place)
        for node in places:
            direct.pop(node, None)
        steps: list[Step] = []
        flight = Flight(self)
        for number, group in enumerate(partition.groups):
            count_work()
            start = self.lifetimes.now
            steps += flight.before(group, is_alias(group), places, direct)
            if is_alias(group):
                places[group.outputs[0]] = self.place(group.inputs[0], places)
            elif group.kind is Kind.CONTROL:
                steps += control(self, group, number, partition, readers, places, direct)
            elif group.kind is Kind.CLAIMED:
                steps.append(claimed(self, group, places, direct))
            elif group.kind is Kind.COLLECTIVE:
                steps.append(flight.start(group, places, direct))
            else:
                steps += self.launches(group, number, readers, places, direct)
            self.times[group] = start, self.lifetimes.now
        steps += flight.done()
        steps += self.copies([(self.place(n, places), place, n.type) for n, place in wanted])
        return tuple(steps)

    def place(self, node: Node, places: Places) -> Argument:
        """The place of a value that was computed before, or of a constant."""
        if node not in places:
            if isinstance(node.op, Const | Param):
                places[node] = Argument(self.constants.slot(node))
            else:
                raise AssertionError(
                    f"{node.op.mnemonic} {node.name} is read before it is computed"
                )
        return places[node]

    def launches(
        self, group: Group, number: int, readers: Readers, places: Places, direct: Places
    ) -> Iterable[Step]:
        """Writes the steps of a group (kernels or a library call), and assigns places to its
        outputs.
        """
        lowered = self.lowerings[group]
        shared = {output: input for output, input in lowered.in_place if output in group.outputs}
        self.lifetimes.tick()
        taken: set[Node] = set()
        for output in group.outputs:
            place = direct.get(output)
            operand = shared.get(output)
            if place is None and operand is not None and readers.value(operand) not in taken:
                place = self.reusable(operand, output, number, readers, places)
                if place is not None:
                    taken.add(readers.value(operand))
            places[output] = place or self.unwritten(output.type, output.origin)
        scratch: dict[Scratch, Argument] = {}
        steps: list[Step] = []
        origins = tuple(dict.fromkeys(n.origin for n in group.nodes if n.origin))
        for copying in lowered.copies:
            source = self.place(copying.source, places)
            target = self.value(copying.target, places, scratch, group)
            steps += self.copies([(source, target, copying.source.type)])
        for launching in lowered.launches:
            arguments = tuple(self.value(v, places, scratch, group) for v in launching.arguments)
            for argument in arguments:
                self.lifetimes.use(argument.slot)
            if launching.backward is not None:
                self.launcher.backwards[launching.kernel] = launching.backward
            steps.append(
                self.launcher.launch(launching.kernel, arguments, launching.sizes, origins)
            )
            self.lifetimes.tick()
        if lowered.call is not None:
            steps.append(self.call(lowered.call, group, places, scratch))
        return steps

    def call(
        self, calling: LibraryCall, group: Group, places: Places, scratch: dict[Scratch, Argument]
    ) -> Call:
        """A library call of the target, for one group."""
        arguments = tuple(self.value(v, places, scratch, group) for v in calling.arguments)
        for argument in arguments:
            self.lifetimes.use(argument.slot)
        self.lifetimes.tick()
        return Call(
            calling.name,
            arguments,
            calling.shapes,
            calling.attributes,
            group.anchor.origin,
            calling.work,
        )

    def reusable(
        self, source: Node, output: Node, number: int, readers: Readers, places: Places
    ) -> Argument | None:
        """The place of an operand that nothing else reads in this group or after it, if the output
        may reuse it.
        """
        place, held = places.get(source), readers.value(source)
        if place is None or readers.last[held] > number:
            return None
        if sum(readers.value(i) is held for i in readers.groups[number].inputs) != 1:
            return None
        size = output.type.size * output.type.dtype.nbytes
        following = readers.replaced.get(place)
        if following is not None:
            fits = following.type.size * following.type.dtype.nbytes == size
            return place if fits and readers.overwritable(output, following) else None
        room = place.slot.elements * place.slot.dtype.nbytes
        whole = not place.offset and not place.strides and room == size
        return place if whole and self.lifetimes.local(place.slot) else None

    def value(
        self, value: Value, places: Places, scratch: dict[Scratch, Argument], group: Group
    ) -> Argument:
        """The place of a launch's argument; scratch memory of the group is allocated at first
        use.
        """
        match value:
            case Node():
                return self.place(value, places)
            case PackedConstant():
                return Argument(self.constants.packed(value))
            case Scratch():
                if value not in scratch:
                    type = Type(value.dtype, (value.size,))
                    origin = group.anchor.origin
                    scratch[value] = (
                        self.kept(type, "", f"s{len(self.slots)}", origin)
                        if value.persistent
                        else self.temporary(type, origin, is_value=False)
                    )
                return scratch[value]

    def copies(self, moves: Sequence[tuple[Argument, Argument, Type]]) -> list[Step]:
        """Copies `moves`, each (source, target, description), as if all at once: a source that
        another move overwrites is saved first.
        """
        moves = [(s, t, w) for s, t, w in moves if s != t and w.size != 0]
        targets = {target.slot for _, target, _ in moves}
        steps: list[Step] = []
        ready: list[tuple[Argument, Argument, Type]] = []
        for source, target, what in moves:
            kept = source
            if source.slot in targets:
                kept = self.temporary(what, source.slot.origin, is_value=False)
                steps.append(self.copy(source, kept, what))
            ready.append((kept, target, what))
        # in the order of the clock, which determines lifetimes
        return steps + [self.copy(*move) for move in ready]

    def copy(self, source: Argument, target: Argument, what: Type) -> Copy:
        """One copy, a step of the clock."""
        self.lifetimes.tick()
        self.lifetimes.use(source.slot)
        self.lifetimes.use(target.slot)
        return Copy(target, source, what.size)


def _nexts(graph: Graph, state: Mapping[str, str], kept: Mapping[str, Argument]) -> list[Move]:
    """Every state with its next value and its place."""
    params = {n.op.name: n for n in (*graph.inputs, *graph.nodes()) if isinstance(n.op, Param)}
    return [
        (params[name], graph.outputs[output], kept[name])
        for name, output in state.items()
        if name in kept
    ]
