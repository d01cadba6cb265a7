"""The graphs of training: an optimizer step, an evaluation and the model itself, over one state.

Every state tensor is a parameter of kind "state"; all graphs list them in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xlac.autodiff.origins import with_origin
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import asked as asked_of
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.summary import statistics
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.objective import nodes_asked
from xlac.spec.training.rates import Rate
from xlac.spec.training.section import Training
from xlac.training.averages import EVALUATE, RUN
from xlac.training.carried.states import FOR_EVALUATE, FOR_RUN, FOR_STEP
from xlac.training.graphs import Metric, TrainingGraphs
from xlac.training.micro_batches.accumulate import Accumulation, MicroBatch
from xlac.training.modes import TrainingMode
from xlac.training.row_updates import chosen
from xlac.training.scaling import FiniteFlags, any_of, following_scale, scale_of, together
from xlac.training.state import LENGTH, SCALE, STEP, TrainingState
from xlac.training.update import Counters, LossUpdate, mean_outputs
from xlac_sdk.source import Origin

FINITE = "finite"
"""A bool output of a step, whether it was finite (`FiniteFlags`). Else nothing was written."""

LOSS_SCALE = "loss_scale"
"""An output of a step with a dynamic loss scale: the scale that it used."""


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
        own = self._on_state(roots, self.state.params)
        on_state, order = own[FOR_STEP], list(self._numbers(means, own[FOR_EVALUATE]))
        called = self._called(means, own, "evaluate", "run")
        averaged: dict[str, Model] = {}
        if self.state.averages:
            own = self._on_state(roots, self.state.averaged())
            averaged = self._called(means, own, EVALUATE, RUN)
        parts: dict[str, Model] = {}
        whole: MicroBatch | None = None
        if self.sums is not None:
            for number in range(len(self.sums.passes)):
                part = MicroBatch(self.sums, number, last=False)
                kind = self.sums.entry(number)
                parts[kind] = self._step(kind, on_state, order, part)
            whole = MicroBatch(self.sums, len(self.sums.passes) - 1, last=True)
        return TrainingGraphs(
            self._step("step", on_state, order, whole),
            parts,
            called["evaluate"],
            called["run"],
            averaged,
            tuple(self.state.tensors.values()),
            tuple(Metric.of(name, mean) for name, mean in means.items()),
            tuple(losses),
            self.state.rates,
            training.accumulate,
            training.shard,
            {
                kind: tuple(self.state.tensors[n] for n in self.state.carried.names(kind).values())
                for kind in self.state.carried.nodes
            },
        )

    def _on_state(
        self, roots: Sequence[Node], weights: Mapping[Node, Node]
    ) -> dict[str, dict[Node, Node]]:
        """By kind of call: nodes of the spec's graph -> the same over the state. `weights` are its
        nodes by those that they replace.
        """
        own: dict[str, dict[Node, Node]] = {}
        for kind, carried in self.state.carried.nodes.items():
            over = {**weights, **carried}
            own[kind] = (
                dict(zip(roots, substituted(roots, over), strict=True))
                if carried or not own
                else own[FOR_STEP]
            )
        return own

    def _called(
        self,
        means: Mapping[str, BatchMean],
        own: Mapping[str, Mapping[Node, Node]],
        evaluate: str,
        run: str,
    ) -> dict[str, Model]:
        """An evaluation and a call of the model by the names of their entries; `own` maps nodes of
        the spec's graph to the same over the state, by kind of call.
        """
        carried = self.state.carried
        numbers = self._numbers(means, own[FOR_EVALUATE])
        results = {name: own[FOR_RUN][node] for name, node in carried.results.items()}
        models: dict[str, Model] = {}
        for name, kind, outputs in ((evaluate, FOR_EVALUATE, numbers), (run, FOR_RUN, results)):
            following = carried.following(kind, own[kind])
            after = {held: f"{held}.next" for held in following}
            outputs |= {after[held]: node for held, node in following.items()}
            models[name] = self._model(name, outputs, after)
        return models

    def _numbers(
        self, means: Mapping[str, BatchMean], on_state: Mapping[Node, Node]
    ) -> dict[str, Node]:
        """The outputs of an evaluation by name; `on_state` maps nodes of the spec's graph to the
        same over the state.
        """
        numbers: dict[str, Node] = {}
        for name, mean in means.items():
            numbers |= mean_outputs(name, mean, [on_state[node] for node in mean.nodes()])
        return numbers

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
        inputs = [n for n in asked_of(self.training.graph) if n in needed]
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
        carried = self.state.carried.following(FOR_STEP, on_state)
        asked += carried.values()
        learning = dict(zip(asked, mode.nodes(asked), strict=True))
        values: dict[str, Node] = {}
        for name, mean in means.items() if part is None or part.is_first_pass else ():
            values |= mean_outputs(name, mean, [learning[on_state[node]] for node in mean.nodes()])
        counters = self._counters()
        following: dict[str, Node] = {}
        flags = FiniteFlags(training.in_turn)
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
            flags.add(update.finite)
            learns.append(update.counted)
        if not last:  # updates of earlier passes are computed again, and not written
            following = {}
        measured = {param(n).name: new for n, new in mode.measured.items()}
        measured = measured if part is None else part.measured(mode.measured, earlier)
        following |= measured
        following |= {name: learning[node] for name, node in carried.items()}
        if last:
            flags.add_statistics(list(measured.values()))
            following |= self.state.next_averages(following, counters.step)
            following[STEP] = build.add(nodes[STEP], 1)
        numbers = {name: values[name] for name in order if name in values}
        if last:
            numbers |= self._all_or_nothing(following, flags, learns)
        following |= part.following if part is not None else {}
        outputs = {**numbers, **{f"{name}.next": node for name, node in following.items()}}
        return self._model(kind, outputs, {name: f"{name}.next" for name in following})

    def _all_or_nothing(
        self, following: dict[str, Node], flags: FiniteFlags, learns: Sequence[Node | None]
    ) -> dict[str, Node]:
        """Makes the next values the present ones where one of the `flags` is false, or there is
        nothing to learn from; adds those of the loss scale. The outputs that say so, by name.
        """
        training, nodes = self.training, self.state.nodes
        done = flags.every
        some = any_of(learns)
        changes = together([done, *some])
        kept = [chosen(changes, node, nodes[n]) for n, node in following.items()]
        origin = Origin("train.finite", self.training.place.span)
        kept = with_origin(kept, origin, {done, changes, *following.values(), *nodes.values()})
        following |= dict(zip(following, kept, strict=True))
        if training.scale is None or not training.scale.dynamic:
            return {FINITE: done}
        scale = following_scale(training.scale, nodes, done, flags.forward)
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
