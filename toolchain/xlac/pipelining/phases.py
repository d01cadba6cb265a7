"""Cuts a model into the phases of a pipeline, each a model of its own."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops.tensor.leaf import Param, param
from xlac.pipelining.plan import Message, Phase, PhasePlan, PipelineValue
from xlac.pipelining.stages import StagedGraph, StageOfPath, staged
from xlac.placement.cut import cut


def holders(
    models: Iterable[Model], said: StageOfPath, ranks: int, kept: Container[str]
) -> dict[str, frozenset[int]]:
    """The ranks that hold each state of some models: those that read or change it, and all of them
    counters and rates that are `kept` between steps.
    """
    held: dict[str, set[int]] = {}
    for model in models:
        builder = _PhaseBuilder(model, ranks, staged(model.graph, said, ranks, model.state), {})
        for name, node in builder.states.items():
            own = held.setdefault(name, set())
            own |= {builder.rank(phase) for phase in builder.readers.get(node, {})}
            own |= {builder.rank(phase) for phase in builder.changes(name)}
            if node.type.size == 1 and name in kept:
                own |= set(range(ranks))
    return {name: frozenset(own or {0}) for name, own in held.items()}


def phases_of(
    model: Model, said: StageOfPath, ranks: int, held: Mapping[str, frozenset[int]]
) -> PhasePlan:
    """A model in phases on some ranks; stage n is on rank n % ranks. Its sizes are fixed. `held`
    are the ranks that hold each state.
    """
    whole = staged(model.graph, said, ranks, model.state)
    return _PhaseBuilder(model, ranks, whole, held).plan()


@dataclass(slots=True, eq=False)
class _Draft:
    """A phase while it is made: outputs by name, and the states that it gets late."""

    written: dict[str, Node] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)


class _PhaseBuilder:
    """Makes the phases of a model."""

    def __init__(
        self, model: Model, ranks: int, whole: StagedGraph, held: Mapping[str, frozenset[int]]
    ) -> None:
        self.model, self.ranks, self.whole, self.held = model, ranks, whole, held
        self.graph = whole.graph
        names = {node: f"{stage}" for node, stage in whole.stage_of.items()}
        self.cut = cut(self.graph, names)
        self.phase_of = {node: n for n, one in enumerate(self.cut) for node in one.nodes}
        self.readers: dict[Node, dict[int, None]] = {}
        for node in self.graph.order:
            if node in self.phase_of:
                for given in node.inputs:
                    self.readers.setdefault(given, {})[self.phase_of[node]] = None
        params = {n.op.name: n for n in self.graph.order if isinstance(n.op, Param)}
        params |= {n.op.name: n for n in self.graph.inputs if isinstance(n.op, Param)}
        self.params = params
        self.states = {name: n for name, n in params.items() if param(n).kind == "state"}
        self.values: dict[int, PipelineValue] = {}
        self.number: dict[Node, int] = {}
        self.drafts = [_Draft() for _ in self.cut]
        self.copied: list[dict[str, int]] = [{} for _ in range(ranks)]

    def rank(self, phase: int) -> int:
        """The rank of a phase."""
        return int(self.cut[phase].target) % self.ranks

    def changes(self, name: str) -> list[int]:
        """The phases that make the next value of a state: one, or one of each rank."""
        output = self.model.state.get(name)
        if output is None:
            return []
        nodes = self.whole.copies.get(output, (self.graph.outputs[output],))
        return [self.phase_of[node] for node in nodes]

    def plan(self) -> PhasePlan:
        hidden = set(self.model.state.values())
        every = tuple(range(self.ranks))
        outputs = {
            name: self._value(self.graph.outputs[name], name, every)
            for name in self.model.graph.outputs
            if name not in hidden
        }
        for node, phase in self.phase_of.items():
            readers = [n for n in self.readers.get(node, ()) if n != phase]
            if readers:
                self._value(node, node.name or node.op.mnemonic, ())
        for name in self.model.state:
            self._change(name)
        phases: list[Phase] = []
        turns: dict[int, int] = {}
        for number in range(len(self.cut)):
            stage = int(self.cut[number].target)
            turns[stage] = turns.get(stage, -1) + 1
            phases.append(self._phase(number, stage, turns[stage]))
        messages = tuple(self._messages())
        return PhasePlan(
            self.model, self.ranks, tuple(phases), self.values, outputs, self.copied, messages
        )

    def _value(self, node: Node, name: str, ends: tuple[int, ...]) -> int:
        """Makes a node's result a value that is passed on; its number."""
        phase = self.phase_of[node]
        if node not in self.number:
            number = self.number[node] = len(self.values)
            readers = tuple(sorted(n for n in self.readers.get(node, ()) if n != phase))
            self.values[number] = PipelineValue(name, node, phase, readers)
            self.drafts[phase].written[f"value {number}"] = node
        number = self.number[node]
        known = self.values[number]
        self.values[number] = replace(known, ends=tuple(sorted({*known.ends, *ends})))
        return number

    def _change(self, name: str) -> None:
        """The next value of a state: an output of the phase that computes it, unless a later one of
        its rank still reads what it was; on other ranks it is copied when all is done.
        """
        output, changes = self.model.state[name], self.changes(name)
        nodes = self.whole.copies.get(output, (self.graph.outputs[output],))
        held = self.held.get(name, frozenset())
        done: set[int] = set()
        for phase, node in zip(changes, nodes, strict=True):
            rank = self.rank(phase)
            if rank in done or (rank not in held and len(nodes) > 1):
                continue
            done.add(rank)
            reading = self.readers.get(self.states[name], ())
            last = max((n for n in reading if self.rank(n) == rank), default=phase)
            if last <= phase:
                self.drafts[phase].written[output] = node
                self.drafts[phase].state[name] = output
            else:
                self.drafts[last].late[name] = self._value(node, output, (rank,))
        for rank in sorted(held - done):
            number = self._value(nodes[0], output, (rank,))
            self.copied[rank][name] = number

    def _phase(self, number: int, stage: int, turn: int) -> Phase:
        draft = self.drafts[number]
        new: dict[Node, Node] = {}
        given: dict[Node, Node] = {}
        reads: dict[str, int] = {}

        def read(node: Node) -> Node:
            if node in new or node not in self.phase_of:
                return new.get(node, node)
            if node not in given:
                name = f"value {self.number[node]}"
                given[node] = Node.of(Param(name, node.type, "input"), origin=node.origin)
                reads[name] = self.number[node]
            return given[node]

        nodes = self.cut[number].nodes
        for node in nodes:
            inputs = tuple(map(read, node.inputs))
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        outputs = {name: new[node] for name, node in draft.written.items()}
        rank = stage % self.ranks
        reading = {p for p in self.params.values() if number in self.readers.get(p, ())}
        states = [
            node
            for node in self.graph.inputs
            if param(node).kind == "state" and rank in self.held.get(param(node).name, {rank})
        ]
        asked = [n for n in self.graph.inputs if n in reading and param(n).kind == "input"]
        graph = Graph(self.model.name, (*asked, *given.values(), *states), outputs)
        # every phase lays out all states of its rank
        own = replace(
            self.model,
            graph=graph,
            state=dict(draft.state),
            extents={},
            forms={},
            checkpointed=None,
        )
        takes = {param(n).name for n in reading if param(n).kind == "state"}
        writes = {f: int(f.removeprefix("value ")) for f in outputs if f.startswith("value ")}
        return Phase(
            number,
            stage,
            rank,
            turn,
            own,
            tuple(param(n).name for n in asked),
            reads,
            writes,
            frozenset(takes),
            frozenset([*draft.state, *draft.late]),
            draft.late,
            nodes,
        )

    def _messages(self) -> Iterable[Message]:
        sent: dict[tuple[int, int], list[int]] = {}
        for number, value in self.values.items():
            home = self.rank(value.source)
            there = {self.rank(n) for n in value.readers} | set(value.ends)
            for rank in sorted(there - {home}):
                sent.setdefault((value.source, rank), []).append(number)
        for (source, rank), numbers in sorted(sent.items()):
            # of equal alignment when one follows the other in a message
            numbers.sort(key=lambda n: (-self.values[n].node.type.dtype.nbytes, n))
            yield Message(source, rank, tuple(numbers))
