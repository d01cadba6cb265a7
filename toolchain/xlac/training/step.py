"""The graphs of training: an optimizer step, an evaluation and the model itself, over one state.

Every state tensor is a parameter of kind "state"; all graphs list them in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.autodiff.origins import with_origin
from xlac.ir.dims import Dim, evaluate
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.summary import statistics
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.objective import nodes_asked
from xlac.spec.training.rates import Rate
from xlac.spec.training.section import Training
from xlac.training.accumulate import ACCUMULATE, Accumulation, MicroBatch, no_micro_batches
from xlac.training.averages import EVALUATE, RUN, no_averages
from xlac.training.modes import TrainingMode
from xlac.training.row_updates import chosen
from xlac.training.scaling import any_of, finite_unless_spoiled, following_scale, scale_of, together
from xlac.training.state import LENGTH, SCALE, STEP, StateTensor, TrainingState
from xlac.training.update import Counters, LossUpdate, mean_outputs
from xlac_sdk.source import Origin

FINITE = "finite"
"""A bool output of a step: loss and checked gradients were finite. Else nothing was written."""

LOSS_SCALE = "loss_scale"
"""An output of a step with a dynamic loss scale: the scale that it used."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A mean that a step and an evaluation return as the output `name`. `count` is the number of
    elements that it averages over: a size, or the name of the output that holds it. With `parts`
    it is their sum, and they have the counts.
    """

    name: str
    count: Dim | str
    parts: tuple[Metric, ...] = ()

    @staticmethod
    def of(name: str, mean: BatchMean) -> Metric:
        """The metric of a mean of the spec."""
        parts = (Metric.of(f"{name}.{n}", part) for n, part in enumerate(mean.parts, 1))
        number = f"{name}.count" if isinstance(mean.count, Node) else mean.count
        return Metric(name, number, tuple(parts))

    def sums(self, outputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[float, ...]:
        """(sum, count) from a call's outputs and sizes; a pair for each part, if it has parts."""
        if self.parts:
            return tuple(n for part in self.parts for n in part.sums(outputs, sizes))
        count = outputs[self.count] if isinstance(self.count, str) else evaluate(self.count, sizes)
        mean, number = float(outputs[self.name]), float(count)
        return (mean * number if number else 0.0, number)


@dataclass(frozen=True, eq=False)
class TrainingGraphs:
    """The models of training. Of several micro-batches `step` takes the last one and `accumulate`
    those before it: one entry for each pass over them, of which losses that learn in turn have one.
    """

    step: Model
    accumulate: Mapping[str, Model]
    evaluate: Model
    run: Model
    averaged: Mapping[str, Model]  # evaluation and model with averaged weights, by entry
    state: tuple[StateTensor, ...]
    metrics: tuple[Metric, ...]  # losses first
    losses: tuple[str, ...]  # the metrics that are minimised
    # by loss ("" if there is one), then by the state tensor that holds the base rate
    rates: Mapping[str, Mapping[str, Rate]]
    micro_batches: int = 1  # of a step
    shard: str | None = None  # what ranks along `data` hold in parts

    @property
    def entries(self) -> dict[str, Model]:
        """The models that exist, by entry name."""
        return {
            "step": self.step,
            "evaluate": self.evaluate,
            "run": self.run,
            **self.averaged,
            **self.accumulate,
        }

    def entry(self, name: str) -> Model:
        """The model of an entry. Raises SourceError for an entry with averages where none are kept,
        and for micro-batches that a step does not have.
        """
        entries = self.entries
        if name not in entries:
            is_part = name.startswith(ACCUMULATE)
            raise no_micro_batches(self.accumulate) if is_part else no_averages()
        return entries[name]


def training_graphs(model: Model, training: Training) -> TrainingGraphs:
    """The graphs of training. Raises NoDerivativeError, and Fault for what no optimizer updates."""
    return _Builder(model, training).graphs()


class _Builder:
    """The graphs of one section `train`."""

    def __init__(self, model: Model, training: Training) -> None:
        self.model, self.training = model, training
        names = {param(node).name for node in statistics(self._full_graph())}
        measured = [name for name in training.weights if name in names]
        self.state = TrainingState(model, training, measured)
        several = training.accumulate > 1
        self.sums = Accumulation(self.state, training, measured) if several else None

    def graphs(self) -> TrainingGraphs:
        training = self.training
        losses = {objective.metric: objective.loss for objective in training.objectives}
        means = {**losses, **training.metrics}
        roots = [node for mean in means.values() for node in mean.nodes()]
        roots += training.graph.outputs.values()
        on_state = dict(zip(roots, substituted(roots, self.state.params), strict=True))
        numbers, outputs = self._results(means, on_state)
        averaged: dict[str, Model] = {}
        if self.state.averages:
            own = dict(zip(roots, substituted(roots, self.state.averaged()), strict=True))
            pairs = zip((EVALUATE, RUN), self._results(means, own), strict=True)
            averaged = {kind: self._model(kind, nodes) for kind, nodes in pairs}
        parts: dict[str, Model] = {}
        whole: MicroBatch | None = None
        if self.sums is not None:
            for number in range(len(self.sums.passes)):
                part = MicroBatch(self.sums, number, last=False)
                kind = self.sums.entry(number)
                parts[kind] = self._step(kind, on_state, list(numbers), part)
            whole = MicroBatch(self.sums, len(self.sums.passes) - 1, last=True)
        return TrainingGraphs(
            self._step("step", on_state, list(numbers), whole),
            parts,
            self._model("evaluate", numbers),
            self._model("run", outputs),
            averaged,
            tuple(self.state.tensors.values()),
            tuple(Metric.of(name, mean) for name, mean in means.items()),
            tuple(losses),
            self.state.rates,
            training.accumulate,
            training.shard,
        )

    def _results(
        self, means: Mapping[str, BatchMean], on_state: Mapping[Node, Node]
    ) -> tuple[dict[str, Node], dict[str, Node]]:
        """The outputs of an evaluation, and those of the model, by name; `on_state` maps nodes of
        the spec's graph to the same over the state.
        """
        numbers: dict[str, Node] = {}
        for name, mean in means.items():
            numbers |= mean_outputs(name, mean, [on_state[node] for node in mean.nodes()])
        return numbers, {name: on_state[n] for name, n in self.training.graph.outputs.items()}

    def _full_graph(self) -> Graph:
        """The model with losses and metrics, which may need more nodes than its outputs."""
        training = self.training
        ends = nodes_asked(training.objectives, training.metrics)
        return Graph(self.model.name, (), {**training.graph.outputs, **ends})

    # ---- graphs ------------------------------------------------------------------------------

    def _model(
        self, kind: str, outputs: Mapping[str, Node], state: Mapping[str, str] | None = None
    ) -> Model:
        """A model over the state with the inputs that its outputs need; `state` maps a state tensor
        to the output that is its next value.
        """
        used = Graph(kind, (), outputs)
        needed = {n for n in used.order if not n.inputs}
        inputs = [n for n in self.training.graph.inputs if n in needed]
        graph = Graph(f"{self.model.name}_{kind}", (*inputs, *self.state.nodes.values()), outputs)
        frozen = {
            param(n).name for n in needed if n.op.mnemonic == "param" and param(n).kind == "weight"
        }
        return replace(
            self.model,
            graph=graph,
            state=state or {},
            extents={},
            forms={},
            weights={name: self._frozen(name) for name in sorted(frozen)},
        )

    def _frozen(self, name: str) -> Any:
        first = self.training.initial.get(name)
        return first() if first else self.model.weights[name]

    def _step(
        self,
        kind: str,
        on_state: Mapping[Node, Node],
        order: Sequence[str],
        part: MicroBatch | None,
    ) -> Model:
        """A step: losses, gradients and the next values of the state; for a micro-batch that is not
        the last, those of the sums only. `on_state` maps nodes of the spec's graph to the same
        over the state; `order` is the order of the outputs.
        """
        training, nodes, last = self.training, self.state.nodes, part is None or part.last
        mode = self._mode(part)
        first = training.objectives[0]
        means = {first.metric: first.loss, **training.metrics}
        asked = [on_state[node] for mean in means.values() for node in mean.nodes()]
        learning = dict(zip(asked, mode.nodes(asked), strict=True))
        values: dict[str, Node] = {}
        for name, mean in means.items() if part is None or part.is_first_pass else ():
            values |= mean_outputs(name, mean, [learning[on_state[node]] for node in mean.nodes()])
        counters = self._counters()
        following: dict[str, Node] = {}
        finite: list[Node] = []
        losses: list[Node] = []
        learns: list[Node | None] = []  # whether there is something to learn from
        earlier: set[Node] = set()  # statistics that an earlier pass has measured
        taken = training.objectives if part is None else (*part.learned, *part.learning)
        for objective in taken:
            if part is not None and objective in part.learning[:1] and not part.is_first_pass:
                earlier, mode.measured = set(mode.measured), {}
            before = following if training.in_turn else {}
            update = LossUpdate(objective, training, nodes, mode, before)
            asked = [on_state[node] for node in objective.loss.nodes()]
            values |= update.compute(asked, self.state.slots, counters, part)
            following |= update.following
            losses += finite_unless_spoiled(update.finite[:1], finite if training.in_turn else [])
            finite += update.finite
            learns.append(update.counted)
        if not last:  # updates of earlier passes are computed again, and not written
            following = {}
        measured = {param(n).name: new for n, new in mode.measured.items()}
        following |= measured if part is None else part.measured(mode.measured, earlier)
        if last:
            following |= self.state.next_averages(following, counters.step)
            following[STEP] = build.add(nodes[STEP], 1)
        numbers = {name: values[name] for name in order if name in values}
        if last:
            numbers |= self._all_or_nothing(following, finite, losses, learns)
        following |= part.following if part is not None else {}
        outputs = {**numbers, **{f"{name}.next": node for name, node in following.items()}}
        return self._model(kind, outputs, {name: f"{name}.next" for name in following})

    def _all_or_nothing(
        self,
        following: dict[str, Node],
        finite: list[Node],
        losses: list[Node],
        learns: Sequence[Node | None],
    ) -> dict[str, Node]:
        """Makes the next values the present ones where a flag of `finite` is false, or there is
        nothing to learn from; adds those of the loss scale, which is decided by the `losses`. The
        outputs that say so, by name.
        """
        training, nodes = self.training, self.state.nodes
        done = together(finite)
        some = any_of(learns)
        changes = together([done, *some])
        kept = [chosen(changes, node, nodes[n]) for n, node in following.items()]
        origin = Origin("train.finite", self.training.place.span)
        kept = with_origin(kept, origin, {done, changes, *following.values(), *nodes.values()})
        following |= dict(zip(following, kept, strict=True))
        if training.scale is None or not training.scale.dynamic:
            return {FINITE: done}
        scale = following_scale(training.scale, nodes, done, together(losses))
        for one in some:
            scale = {name: chosen(one, new, nodes[name]) for name, new in scale.items()}
        following |= scale
        return {LOSS_SCALE: nodes[SCALE], FINITE: done}

    def _mode(self, part: MicroBatch | None) -> TrainingMode:
        training, step = self.training, self.state.nodes[STEP]
        counter = step if part is None else part.random_counter(step)
        how = (training.frozen_mode, training.compute, training.parts)
        return TrainingMode(training.seed, counter, *how)

    def _counters(self) -> Counters:
        """The number of steps done, the learning rates of this step, and its loss scale."""
        nodes = self.state.nodes
        step = build.cast(nodes[STEP], self.state.wide)
        steps = nodes.get(LENGTH, step)
        now: dict[Rate, Node] = {}
        for rates in self.state.rates.values():
            for name, rate in rates.items():
                factor = rate.factor(self.training.elaboration(), step, steps)
                now[rate] = build.mul(nodes[name], factor)
        return Counters(step, now, scale_of(self.training.scale, nodes))
