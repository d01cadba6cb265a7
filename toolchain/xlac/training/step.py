"""The graphs of training: a step that learns, an evaluation and the model itself, over one state.

Everything that is kept (`state`) is a parameter of kind "state", listed in every graph in the same
order, so that all programs keep it alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.autodiff.origins import stamped
from xlac.ir.dims import Dim, evaluate
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.summary import statistics
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.optimizer import Rate
from xlac.spec.training.section import Training
from xlac.training.accumulate import Accumulation, MicroBatch, no_micro_batches
from xlac.training.averages import EVALUATE, RUN, no_averages
from xlac.training.modes import TrainingMode
from xlac.training.row_updates import chosen
from xlac.training.scaling import any_of, counted, following_scale, scale_of, together
from xlac.training.state import LENGTH, SCALE, STEP, StateTensor, TrainingState
from xlac.training.update import Counters, LossUpdate, mean_outputs
from xlac_sdk.source import Origin

FINITE = "finite"  # an output of a step: whether what it found was, and anything was written

LOSS_SCALE = "loss_scale"
"""An output of a step: what its loss was multiplied by, where that changes."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that a step and an evaluation give: output `name`, the mean of `count` numbers; or
    of as many as the output named `count` says. Where it has `parts` it is the sum of these.
    """

    name: str
    count: Dim | str
    parts: tuple[Metric, ...] = ()

    @staticmethod
    def of(name: str, mean: BatchMean) -> Metric:
        """That of a mean."""
        parts = (Metric.of(f"{name}.{n}", part) for n, part in enumerate(mean.parts, 1))
        number = f"{name}.count" if isinstance(mean.count, Node) else mean.count
        return Metric(name, number, tuple(parts))

    def sums(self, found: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[float, ...]:
        """The sum and the count of a call's outputs; of several means each of them in turn."""
        if self.parts:
            return tuple(n for part in self.parts for n in part.sums(found, sizes))
        count = found[self.count] if isinstance(self.count, str) else evaluate(self.count, sizes)
        mean, number = float(found[self.name]), float(count)
        return (mean * number if number else 0.0, number)


@dataclass(frozen=True, eq=False)
class TrainingGraphs:
    """The models of training. Of a step of several micro-batches `accumulate` takes all but the last,
    and `step` that.
    """

    step: Model
    accumulate: Model | None
    evaluate: Model
    run: Model
    averaged: Mapping[str, Model]  # evaluation and model with averages as weights, by entry
    state: tuple[StateTensor, ...]
    metrics: tuple[Metric, ...]  # losses first
    losses: tuple[str, ...]  # the metrics that are minimised
    # by loss ("" of one only), then the state of their base
    rates: Mapping[str, Mapping[str, Rate]]

    @property
    def entries(self) -> dict[str, Model]:
        """The models by name, those that there are."""
        parts = {} if self.accumulate is None else {"accumulate": self.accumulate}
        return {"step": self.step, "evaluate": self.evaluate, "run": self.run, **self.averaged, **parts}  # fmt: skip

    def entry(self, name: str) -> Model:
        """The model of an entry. Raises SourceError for averages where none are kept, and for a
        micro-batch where a step has one only.
        """
        found = self.entries
        if name not in found:
            raise no_micro_batches() if name == "accumulate" else no_averages()
        return found[name]


def training_graphs(model: Model, training: Training) -> TrainingGraphs:
    """The graphs of a step, of an evaluation and of the model itself. Raises NoDerivativeError, or
    Fault for an optimizer that makes no sense of a weight.
    """
    return _Builder(model, training).graphs()


class _Builder:
    """The graphs of one section `train`."""

    def __init__(self, model: Model, training: Training) -> None:
        self.model, self.training = model, training
        names = {param(node).name for node in statistics(self._whole())}
        measured = [name for name in training.weights if name in names]
        self.state = TrainingState(model, training, measured)
        self.sums: Accumulation | None = None
        if training.accumulate > 1:
            self.sums = Accumulation(self.state, training, measured)

    def graphs(self) -> TrainingGraphs:
        training = self.training
        losses = {objective.metric: objective.loss for objective in training.objectives}
        means = {**losses, **training.metrics}
        roots = [node for mean in means.values() for node in mean.nodes()]
        roots += training.graph.outputs.values()
        moved = dict(zip(roots, substituted(roots, self.state.params), strict=True))
        numbers, outputs = self._results(means, moved)
        averaged: dict[str, Model] = {}
        if self.state.averages:
            own = dict(zip(roots, substituted(roots, self.state.averaged()), strict=True))
            pairs = zip((EVALUATE, RUN), self._results(means, own), strict=True)
            averaged = {kind: self._model(kind, found) for kind, found in pairs}
        return TrainingGraphs(
            self._step(moved, list(numbers)),
            self._step(moved, list(numbers), last=False) if self.sums is not None else None,
            self._model("evaluate", numbers),
            self._model("run", outputs),
            averaged,
            tuple(self.state.tensors.values()),
            tuple(Metric.of(name, mean) for name, mean in means.items()),
            tuple(losses),
            self.state.rates,
        )

    def _results(
        self, means: Mapping[str, BatchMean], moved: Mapping[Node, Node]
    ) -> tuple[dict[str, Node], dict[str, Node]]:
        """The numbers of an evaluation, and the outputs of the model, by name."""
        numbers: dict[str, Node] = {}
        for name, mean in means.items():
            numbers |= mean_outputs(name, mean, [moved[node] for node in mean.nodes()])
        return numbers, {name: moved[n] for name, n in self.training.graph.outputs.items()}

    def _whole(self) -> Graph:
        """The model, and what is minimised and reported, which may need more than its outputs."""
        training = self.training
        means = [objective.loss for objective in training.objectives]
        asked = [n for mean in (*means, *training.metrics.values()) for n in mean.nodes()]
        ends = {f"asked {n}": node for n, node in enumerate(asked)}
        return Graph(self.model.name, (), {**training.graph.outputs, **ends})

    # ---- graphs ------------------------------------------------------------------------------

    def _model(
        self, kind: str, outputs: Mapping[str, Node], state: Mapping[str, str] | None = None
    ) -> Model:
        """A model over the state, whose inputs are those that its outputs need."""
        used = Graph(kind, (), outputs)
        needed = {n for n in used.order if not n.inputs}
        inputs = [n for n in self.training.graph.inputs if n in needed]
        graph = Graph(f"{self.model.name}_{kind}", (*inputs, *self.state.nodes.values()), outputs)
        frozen = {param(n).name for n in needed if n.op.mnemonic == "param" and param(n).kind == "weight"}  # fmt: skip
        return replace(
            self.model, graph=graph, state=state or {}, extents={}, forms={},
            weights={name: self._frozen(name) for name in sorted(frozen)},
        )  # fmt: skip

    def _frozen(self, name: str) -> Any:
        drawn = self.training.initial.get(name)
        return drawn() if drawn else self.model.weights[name]

    def _step(self, moved: Mapping[Node, Node], order: Sequence[str], last: bool = True) -> Model:
        """The losses, their gradients, and the next values of everything; of a micro-batch that is
        not the last those of the sums. `moved` has the values of the graph over the state; the
        numbers are put out in an order of their names.
        """
        training, nodes = self.training, self.state.nodes
        part = MicroBatch(self.sums, last) if self.sums is not None else None
        mode = self._mode()
        first = training.objectives[0]
        means = {first.metric: first.loss, **training.metrics}
        asked = [moved[node] for mean in means.values() for node in mean.nodes()]
        learning = dict(zip(asked, mode.nodes(asked), strict=True))
        made: dict[str, Node] = {}
        for name, mean in means.items():
            made |= mean_outputs(name, mean, [learning[moved[node]] for node in mean.nodes()])
        counters = self._counters()
        following: dict[str, Node] = {}
        finite: list[Node] = []
        losses: list[Node] = []
        learns: list[Node | None] = []  # whether there is something to learn from
        for objective in training.objectives:
            before = following if training.in_turn else {}
            turn = LossUpdate(objective, training, nodes, mode, before)
            asked = [moved[node] for node in objective.loss.nodes()]
            made |= turn.learned(asked, self.state.slots, counters, part)
            following |= turn.following
            losses += counted(turn.finite[:1], finite if training.in_turn else [])
            finite += turn.finite
            learns.append(turn.counted)
        measured = {param(n).name: new for n, new in mode.measured.items()}
        following |= measured if part is None else part.measured(mode.measured)
        if last:
            following |= self.state.next_averages(following, counters.step)
            following[STEP] = build.add(nodes[STEP], 1)
        numbers = {name: made[name] for name in order}
        if last:  # all or nothing
            done = together(finite)
            some = any_of(learns)
            changes = together([done, *some])
            kept = [chosen(changes, node, nodes[n]) for n, node in following.items()]
            origin = Origin("train.finite", self.training.place.span)
            kept = stamped(kept, origin, {done, changes, *following.values(), *nodes.values()})
            following = dict(zip(following, kept, strict=True))
            if training.scale is not None and training.scale.dynamic:
                scale = following_scale(training.scale, nodes, done, together(losses))
                for one in some:
                    scale = {name: chosen(one, new, nodes[name]) for name, new in scale.items()}
                following |= scale
                numbers = {**numbers, LOSS_SCALE: nodes[SCALE]}
            numbers = {**numbers, FINITE: done}
        following |= part.following if part is not None else {}
        outputs = {**numbers, **{f"{name}.next": node for name, node in following.items()}}
        kind = "step" if last else "accumulate"
        return self._model(kind, outputs, {name: f"{name}.next" for name in following})

    def _mode(self) -> TrainingMode:
        training, step = self.training, self.state.nodes[STEP]
        drawn = step if self.sums is None else self.sums.drawn(step)
        return TrainingMode(training.seed, drawn, training.frozen_mode, training.compute)

    def _counters(self) -> Counters:
        """How many steps were taken, and the rates of this one."""
        nodes = self.state.nodes
        step = build.cast(nodes[STEP], self.state.wide)
        steps = nodes.get(LENGTH, step)
        now: dict[Rate, Node] = {}
        for rates in self.state.rates.values():
            for name, rate in rates.items():
                factor = rate.factor(self.training.elaboration(), step, steps)
                now[rate] = build.mul(nodes[name], factor)
        return Counters(step, now, scale_of(self.training.scale, nodes))
