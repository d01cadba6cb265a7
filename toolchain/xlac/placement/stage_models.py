"""The stages of a cut as models, each a graph of its own; values that pass between are numbered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac.ir.dims import Sym, Symbol, symbol, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import attributes
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param, param
from xlac.placement.cut import DeviceStage
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.sizes import determined
from xlac_sdk.source import Diagnostic, UnsupportedError


@dataclass(frozen=True, slots=True, eq=False)
class PassedValue:
    """A value that a stage computes, and which others get through the memory of the host. Without
    readers it is the next value of a state that the host holds.
    """

    name: str
    type: Type
    source: int  # the stage that computes it
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StageModel:
    """A stage as a model; `reads` and `writes` have the number of each input's and output's
    value.
    """

    target: str
    model: Model
    reads: Mapping[str, int]
    writes: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class HeldState:
    """State that several stages read or change, so that the host holds it: the numbers of its value
    before and after a call.
    """

    name: str
    type: Type
    before: int
    after: int


@dataclass(frozen=True, slots=True, eq=False)
class StageValues:
    """What calls need to know of values, by number: those of callers by name, the types of those
    that only stages see, and for each stage which it reads and writes, by the names it has for
    them. `sizes` are values whose one extent tells a stage an open size.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    between: Mapping[int, Type]
    sizes: Mapping[int, Symbol]
    held: Sequence[HeldState]
    stages: Sequence[tuple[Mapping[str, int], Mapping[str, int]]]

    def results(self, stage: int) -> dict[str, int]:
        """The outputs of a stage, those first that other stages read."""
        read = {number for reads, _ in self.stages for number in reads.values()}
        _, writes = self.stages[stage]
        return {name: writes[name] for name in sorted(writes, key=lambda n: writes[n] not in read)}


@dataclass(slots=True, eq=False)
class StagedModel:
    """A model as stages. Values are numbered: those of callers by name, `passed` by number. An
    output may be passed on too. `sizes` are values whose one extent tells a stage an open size.
    """

    whole: Model
    stages: list[StageModel] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    passed: dict[int, PassedValue] = field(default_factory=dict)
    sizes: dict[int, Symbol] = field(default_factory=dict)
    held: list[HeldState] = field(default_factory=list)
    count: int = 0

    def new(self) -> int:
        """The number of one more value."""
        self.count += 1
        return self.count - 1

    @property
    def values(self) -> StageValues:
        """What calls need to know of it."""
        given = set(self.outputs.values())
        between = {n: value.type for n, value in self.passed.items() if n not in given}
        stages = [(stage.reads, stage.writes) for stage in self.stages]
        return StageValues(self.inputs, self.outputs, between, self.sizes, self.held, stages)


class StageBuilder:
    """Makes the models of the stages of a cut, which has one at least."""

    def __init__(self, model: Model, stages: Sequence[DeviceStage]) -> None:
        self.model, self.cut, self.made = model, stages, StagedModel(model)
        graph = model.graph
        hidden = {out for name, out in model.state.items() if out == f"{name}.next"}
        self.public = {n: node for n, node in graph.outputs.items() if n not in hidden}
        self.stage_of = {node: n for n, stage in enumerate(stages) for node in stage.nodes}
        # the stages that read a value, as numbers
        self.readers: dict[Node, dict[int, None]] = {}
        for node in graph.order:
            for given in node.inputs:
                if node in self.stage_of:
                    self.readers.setdefault(given, {})[self.stage_of[node]] = None
        for node in graph.outputs.values():
            if node not in self.stage_of:
                self.readers.setdefault(node, {})[self._stage(node)] = None
        walked = walk((*graph.inputs, *graph.order))
        self.params = {n.op.name: n for n in walked if isinstance(n.op, Param)}
        self.states = {name: self.params[name] for name in model.state}
        self.passed_names: set[str] = set()
        self.number: dict[Node, int] = {}  # of values that stages read from others, and of state
        self.written: list[dict[str, Node]] = [{} for _ in stages]
        self.writes: list[dict[str, int]] = [{} for _ in stages]

    def staged(self) -> StagedModel:
        """The model as stages. Raises UnsupportedError for state of an open size that would be held
        by the host.
        """
        made = self.made
        made.inputs = {param(node).name: made.new() for node in self.model.inputs}
        for name, node in self.public.items():
            made.outputs[name] = self._write(self._stage(node), name, node)
        for node, stage in self.stage_of.items():
            readers = tuple(n for n in self.readers.get(node, ()) if n != stage)
            if readers:
                self._pass(node, node.name or node.op.mnemonic, readers)
        homes = {name: self._home(name) for name in self.states}
        for name, home in homes.items():
            if home is None:
                self._hold(name)
            else:
                output = self.model.state[name]
                self.written[home].setdefault(output, self.model.graph.outputs[output])
        for number in range(len(self.cut)):
            own = {name: node for name, node in self.states.items() if homes[name] == number}
            made.stages.append(self._model(number, own))
        return made

    def _stage(self, node: Node) -> int:
        """The stage that gives a value: for an input, a weight or a constant, the last one."""
        return self.stage_of.get(node, len(self.cut) - 1)

    def _write(self, stage: int, name: str, node: Node) -> int:
        """Makes a value an output of its stage; the number that it has from now on."""
        number = self.writes[stage][name] = self.made.new()
        self.written[stage][name] = node
        if node in self.stage_of:
            self.number.setdefault(node, number)
        return number

    def _pass(self, node: Node, name: str, readers: tuple[int, ...]) -> int:
        """Passes a value on, under a name that nothing else has; its number."""
        stage, number = self._stage(node), self.number.get(node)
        outputs = self.model.graph.outputs if number is None else ()
        unique, count = name, 1
        while unique in self.params or unique in outputs or unique in self.passed_names:
            count += 1
            unique = f"{name}~{count}"
        self.passed_names.add(unique)
        if number is None:
            number = self._write(stage, unique, node)
        self.made.passed[number] = PassedValue(unique, node.type, stage, readers)
        return number

    def _home(self, name: str) -> int | None:
        """The stage that alone reads and changes a state; None where there are several."""
        following = self.model.graph.outputs[self.model.state[name]]
        stages = {*self.readers.get(self.states[name], ()), self._stage(following)}
        return stages.pop() if len(stages) == 1 else None

    def _hold(self, name: str) -> None:
        """Lets the host hold a state."""
        node, following = self.states[name], self.model.graph.outputs[self.model.state[name]]
        if any(symbols(size) for size in node.type.shape):
            problem = f"state {name!r}, of an open size, is read and changed in several stages"
            hint = "name all of these nodes in one pattern, or fix the size: --dim NAME=N"
            span = node.origin.span if node.origin else None
            raise UnsupportedError(Diagnostic("XL7833", problem, span, hint))
        before = self.number[node] = self.made.new()
        after = self.number.get(following) if following in self.stage_of else None
        if after is None:
            after = self._pass(following, f"{name}.next", ())
        self.made.held.append(HeldState(name, node.type, before, after))

    def _model(self, stage: int, states: Mapping[str, Node]) -> StageModel:
        """The model of a stage that holds some of the states."""
        given: dict[Node, Node] = {}  # values of other stages, as parameters
        reads: dict[str, int] = {}
        new: dict[Node, Node] = {}

        def read(node: Node) -> Node:
            if node in new:
                return new[node]
            if self.stage_of.get(node, stage) == stage and node not in self.number:
                return node  # a leaf
            if node not in given:
                number = self.number[node]
                passed = self.made.passed.get(number)
                name = passed.name if passed else param(node).name
                given[node] = Node.of(Param(name, node.type, "input"), origin=node.origin)
                reads[name] = number
            return given[node]

        for node in self.cut[stage].nodes:
            inputs = tuple(map(read, node.inputs))
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        outputs = {name: read(node) for name, node in self.written[stage].items()}
        own = [n for n in self.model.graph.inputs if self._takes(n, stage, states)]
        asked = [param(n).name for n in own if param(n).kind == "input"]
        reads |= {name: self.made.inputs[name] for name in asked}
        params = [*own, *given.values()]
        graph = Graph(self.model.name, (*params, *self._sizes(params, outputs, reads)), outputs)
        model = replace(
            self.model,
            graph=graph,
            dims={s.name: s for s in self._open(graph)},
            state={name: self.model.state[name] for name in states},
            extents={},
            forms={},
            checkpointed=None,
            ranks=None,
            place=(),
        )
        return StageModel(self.cut[stage].target, model, reads, self.writes[stage])

    def _takes(self, node: Node, stage: int, states: Mapping[str, Node]) -> bool:
        """Whether a parameter of the model is one of a stage, too."""
        if param(node).kind == "state":
            return param(node).name in states
        return stage in self.readers.get(node, ())

    def _sizes(
        self, inputs: Sequence[Node], outputs: Mapping[str, Node], reads: dict[str, int]
    ) -> list[Node]:
        """Parameters with the open sizes that the others do not determine."""
        known = determined(node.type.shape for node in inputs)
        missing = [
            one
            for one in self._open(Graph("", tuple(inputs), outputs))
            if one.name not in known and one.name in self.model.dims
        ]
        params = []
        for one in missing:
            name = f"size {one.name}"
            extent = symbol(one.name, one.min, one.max, one.opt, one.multiple_of)
            params.append(Node.of(Param(name, Type(DType.BOOL, (extent,)), "input")))
            reads[name] = self.made.new()
            self.made.sizes[reads[name]] = one
        return params

    def _open(self, graph: Graph) -> list[Symbol]:
        """The open sizes of a graph, in the order of the model's."""
        names = {one.name for one in _symbols(graph)}
        return [one for name, one in self.model.dims.items() if name in names]


def _symbols(graph: Graph) -> Iterator[Symbol]:
    """Every open size in the types and attributes of a graph's nodes and bodies."""
    for node in walk((*graph.inputs, *graph.outputs.values())):
        for type in node.results:
            yield from _symbols_of(type.shape)
        for value in attributes(node.op).values():
            yield from _symbols_of(value)


def _symbols_of(value: object) -> Iterator[Symbol]:
    if isinstance(value, Graph):
        yield from _symbols(value)
    elif isinstance(value, tuple):
        for part in value:
            yield from _symbols_of(part)
    elif isinstance(value, Sym):
        yield from symbols(value)
