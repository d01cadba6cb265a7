"""The graphs of training: a step that learns, an evaluation and the model itself, over one state.

Weights that learn, what the optimizer keeps for them, and the counters are state: parameters of
kind "state", listed in every graph in the same order, so that all programs keep them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.summary import statistics
from xlac.spec.training.objective import Objective
from xlac.spec.training.optimizer import Rate
from xlac.spec.training.section import Training, scalar_type
from xlac.training.modes import TrainingMode
from xlac.training.update import Counters, Turn, mean_nodes, mean_outputs, state_prefix
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

STEP, LENGTH = "optimizer.step", "optimizer.steps"
FINITE = "finite"  # an output of a step: whether its gradients were, and anything was written


@dataclass(frozen=True, eq=False)
class StateTensor:
    """What training keeps: a tensor of the state, and its first value."""

    name: str
    type: Type
    initial: Callable[[], Array]
    learns: bool = False  # a weight


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that a step and an evaluation give: output `name`, the mean of `count` numbers; or
    of as many as the output named `count` says.
    """

    name: str
    count: Dim | str


@dataclass(frozen=True, eq=False)
class TrainingGraphs:
    """The three models of training."""

    step: Model
    evaluate: Model
    run: Model
    state: tuple[StateTensor, ...]
    metrics: tuple[Metric, ...]  # losses first
    losses: tuple[str, ...]  # the metrics that are minimised
    rates: Mapping[
        str, Mapping[str, Rate]
    ]  # by loss ("" of one only), then the state of their base


def training_graphs(model: Model, training: Training) -> TrainingGraphs:
    """The graphs of a step, of an evaluation and of the model itself. Raises NoDerivativeError, or
    Fault for an optimizer that makes no sense of a weight.
    """
    return _Builder(model, training).graphs()


class _Builder:
    """The graphs of one section `train`."""

    def __init__(self, model: Model, training: Training) -> None:
        self.model, self.training = model, training
        self.wide = scalar_type(training)
        self.state: dict[str, StateTensor] = {}
        self.params: dict[Node, Node] = {}  # weights that learn, as state
        self.slots: dict[tuple[Objective, str], dict[str, Node]] = {}
        self.rates: dict[str, dict[str, Rate]] = {}
        self.nodes: dict[str, Node] = {}

    def graphs(self) -> TrainingGraphs:
        training = self.training
        self._declare()
        losses = {objective.metric: objective.loss for objective in training.objectives}
        means = {**losses, **training.metrics}
        roots = [node for mean in means.values() for node in mean_nodes(mean)]
        roots += training.graph.outputs.values()
        moved = dict(zip(roots, substituted(roots, self.params), strict=True))
        numbers: dict[str, Node] = {}
        for name, mean in means.items():
            numbers |= mean_outputs(name, [moved[node] for node in mean_nodes(mean)])
        outputs = {name: moved[node] for name, node in training.graph.outputs.items()}
        counts = {n: f"{n}.count" if isinstance(m.count, Node) else m.count for n, m in means.items()}  # fmt: skip
        return TrainingGraphs(
            self._step(moved, list(numbers)),
            self._model("evaluate", numbers),
            self._model("run", outputs),
            tuple(self.state.values()),
            tuple(Metric(name, count) for name, count in counts.items()),
            tuple(losses),
            self.rates,
        )

    # ---- state -------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Everything that is kept, in order: weights, what the optimizer keeps, counters."""
        training = self.training
        measured = {param(node).name for node in statistics(self._whole())}
        for name in (*training.learns, *(n for n in training.weights if n in measured)):
            weight = training.weights[name]
            first = training.initial.get(name) or self._given(name)
            self.params[weight] = self._add(name, weight.type, first, True, weight.origin)
        for objective in training.objectives:
            for name, optimizer in objective.learns.items():
                prefix = state_prefix(objective)
                self.slots[objective, name] = {
                    slot: self._add(f"{prefix}{slot}.{name}", type, _filled(type, value))
                    for slot, (type, value) in optimizer.slots(training.weights[name].type).items()
                }
        scalar = Type(self.wide)
        count = self._add(STEP, Type(DType.I64), _filled(Type(DType.I64), 0))
        self.mode = TrainingMode(training.seed, count, training.frozen_mode, training.compute)
        optimizers = [o for objective in training.objectives for o in objective.learns.values()]
        if any(optimizer.rate.covers_run for optimizer in optimizers):
            self._add(LENGTH, scalar, _filled(scalar, 0.0))
        for objective in training.objectives:
            rates = self.rates[objective.name] = dict[str, Rate]()
            for optimizer in sorted(objective.learns.values(), key=lambda one: bool(one.group)):
                if optimizer.rate not in rates.values():
                    name = f"{state_prefix(objective)}lr{f'.{len(rates)}' if rates else ''}"
                    rates[name] = optimizer.rate
                    self._add(name, scalar, _filled(scalar, optimizer.rate.base))

    def _whole(self) -> Graph:
        """The model, and what is minimised and reported, which may need more than its outputs."""
        training = self.training
        means = [objective.loss for objective in training.objectives]
        asked = [n for mean in (*means, *training.metrics.values()) for n in mean_nodes(mean)]
        ends = {f"asked {n}": node for n, node in enumerate(asked)}
        return Graph(self.model.name, (), {**training.graph.outputs, **ends})

    def _given(self, name: str) -> Callable[[], Array]:
        return lambda: np.asarray(self.model.weights[name])

    def _add(
        self,
        name: str,
        type: Type,
        initial: Callable[[], Array],
        learns: bool = False,
        origin: Origin | None = None,
    ) -> Node:
        self.state[name] = StateTensor(name, type, initial, learns)
        self.nodes[name] = build.param(name, type.dtype, type.shape, "state", origin)
        return self.nodes[name]

    # ---- graphs ------------------------------------------------------------------------------

    def _model(
        self, kind: str, outputs: Mapping[str, Node], state: Mapping[str, str] | None = None
    ) -> Model:
        """A model over the state, whose inputs are those that its outputs need."""
        used = Graph(kind, (), outputs)
        needed = {n for n in used.order if not n.inputs}
        inputs = [n for n in self.training.graph.inputs if n in needed]
        graph = Graph(f"{self.model.name}_{kind}", (*inputs, *self.nodes.values()), outputs)
        frozen = {param(n).name for n in needed if n.op.mnemonic == "param" and param(n).kind == "weight"}  # fmt: skip
        return replace(
            self.model, graph=graph, state=state or {}, extents={}, forms={},
            weights={name: self._frozen(name) for name in sorted(frozen)},
        )  # fmt: skip

    def _frozen(self, name: str) -> Any:
        drawn = self.training.initial.get(name)
        return drawn() if drawn else self.model.weights[name]

    def _step(self, moved: Mapping[Node, Node], order: Sequence[str]) -> Model:
        """The losses, their gradients, and the next values of everything. `moved` has the values
        of the graph over the state; the numbers are put out in an order of their names.
        """
        training = self.training
        first = training.objectives[0]
        means = {first.metric: first.loss, **training.metrics}
        asked = [moved[node] for mean in means.values() for node in mean_nodes(mean)]
        learning = dict(zip(asked, self.mode.nodes(asked), strict=True))
        made: dict[str, Node] = {}
        for name, mean in means.items():
            made |= mean_outputs(name, [learning[moved[node]] for node in mean_nodes(mean)])
        counters = self._counters()
        following: dict[str, Node] = {}
        flags: list[Node] = []
        for objective in training.objectives:
            before = following if training.in_turn else {}
            turn = Turn(objective, training, self.nodes, self.mode, before)
            asked = [moved[node] for node in mean_nodes(objective.loss)]
            made |= turn.learned(asked, self.slots, counters)
            following |= turn.following
            flags += turn.flags
        following[STEP] = build.add(self.nodes[STEP], 1)
        following.update({param(n).name: new for n, new in self.mode.measured.items()})
        numbers = {name: made[name] for name in order}
        if flags:  # all or nothing
            finite = flags[0]
            for flag in flags[1:]:
                finite = build.apply1("and", finite, flag)
            following = {
                name: build.select(finite, node, self.nodes[name])
                for name, node in following.items()
            }
            numbers = {**numbers, FINITE: finite}
        outputs = {**numbers, **{f"{name}.next": node for name, node in following.items()}}
        return self._model("step", outputs, {name: f"{name}.next" for name in following})

    def _counters(self) -> Counters:
        """How many steps were taken, and the rates of this one."""
        step = build.cast(self.nodes[STEP], self.wide)
        steps = self.nodes.get(LENGTH, step)
        now: dict[Rate, Node] = {}
        for rates in self.rates.values():
            for name, rate in rates.items():
                factor = rate.factor(self.training.elaboration(), step, steps)
                now[rate] = build.mul(self.nodes[name], factor)
        return Counters(step, now)


def _filled(type: Type, value: float) -> Callable[[], Array]:
    return lambda: np.full(tuple(int(n) for n in type.shape), value).astype(type.dtype.numpy)  # type: ignore[arg-type]
