"""The graphs of training: a step that learns, an evaluation and the model itself, over one state.

Weights that learn, what the optimizer keeps for them, and the counters are state: parameters of
kind "state", listed in every graph in the same order, so that all programs keep them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.autodiff.gradient import linearize
from xlac.autodiff.walks import substituted
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.spec.summary import statistics
from xlac.spec.training.optimizer import Optimizer, Rate
from xlac.spec.training.section import Training, scalar_type
from xlac.training.modes import TrainingMode
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

STEP, LENGTH, RATE = "optimizer.step", "optimizer.steps", "optimizer.lr"
FINITE = "finite"  # an output of a step: whether its gradients were, and anything was written
EPSILON = 1e-6  # added to the length of gradients that are clipped, as PyTorch does


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
    metrics: tuple[Metric, ...]
    rates: Mapping[str, Rate]  # by the state that holds their base


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
        self.slots: dict[str, dict[str, Node]] = {}
        self.rates: dict[str, Rate] = {}
        self.nodes: dict[str, Node] = {}

    def graphs(self) -> TrainingGraphs:
        training = self.training
        self._declare()
        means = {"loss": training.loss, **training.metrics}
        asked: list[Node] = []
        for mean in means.values():
            asked += [mean.value] if not isinstance(mean.count, Node) else [mean.value, mean.count]
        roots = [*asked, *training.graph.outputs.values()]
        moved = substituted(roots, self.params)
        found = dict(zip(roots, moved, strict=True))
        learning = dict(zip(asked, self.mode.nodes([found[node] for node in asked]), strict=True))
        numbers: dict[str, Node] = {}
        trained: dict[str, Node] = {}
        metrics: list[Metric] = []
        for name, mean in means.items():
            numbers[name], trained[name] = found[mean.value], learning[mean.value]
            if isinstance(mean.count, Node):
                numbers[f"{name}.count"] = build.cast(found[mean.count], DType.F32)
                trained[f"{name}.count"] = build.cast(learning[mean.count], DType.F32)
            metrics.append(Metric(name, f"{name}.count" if isinstance(mean.count, Node) else mean.count))  # fmt: skip
        outputs = {name: found[node] for name, node in training.graph.outputs.items()}
        return TrainingGraphs(
            self._step(trained),
            self._model("evaluate", numbers),
            self._model("run", outputs),
            tuple(self.state.values()),
            tuple(metrics),
            self.rates,
        )

    # ---- state -------------------------------------------------------------------------------

    def _declare(self) -> None:
        """Everything that is kept, in order: weights, what the optimizer keeps, counters."""
        training = self.training
        measured = {param(node).name for node in statistics(training.graph)}
        for name in (*training.learns, *(n for n in training.weights if n in measured)):
            weight = training.weights[name]
            first = training.initial.get(name) or self._given(name)
            self.params[weight] = self._add(name, weight.type, first, True, weight.origin)
        for name, optimizer in training.learns.items():
            weight = training.weights[name]
            self.slots[name] = {
                slot: self._add(
                    f"optimizer.{slot}.{name}", weight.type, _filled(weight.type, value)
                )
                for slot, value in optimizer.slots().items()
            }
        scalar = Type(self.wide)
        count = self._add(STEP, Type(DType.I64), _filled(Type(DType.I64), 0))
        self.mode = TrainingMode(training.seed, count, training.frozen_mode)
        if any(optimizer.rate.covers_run for optimizer in training.learns.values()):
            self._add(LENGTH, scalar, _filled(scalar, 0.0))
        for optimizer in training.learns.values():
            if optimizer.rate not in self.rates.values():
                name = f"{RATE}.{len(self.rates)}" if self.rates else RATE
                self.rates[name] = optimizer.rate
                self._add(name, scalar, _filled(scalar, optimizer.rate.base))

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

    def _step(self, numbers: Mapping[str, Node]) -> Model:
        """The loss, its gradients, and the next values of everything."""
        training = self.training
        names = list(training.learns)
        weights = [self.params[training.weights[name]] for name in names]
        found = linearize([numbers["loss"]], weights)
        numbers = {**numbers, "loss": found.values[0]}
        one = build.constant(1.0, numbers["loss"].type.dtype)
        gradients = dict(zip(names, found.transposed([one]), strict=True))
        finite: Node | None = None
        if training.clip.value is not None:
            gradients = {n: _between(g, training.clip.value) for n, g in gradients.items()}
        if training.clip.norm is not None:
            gradients, finite = self._clipped(gradients, training.clip.norm)
        following = self._following(gradients)
        following.update({param(n).name: new for n, new in self.mode.measured.items()})
        if finite is not None:  # all or nothing
            following = {
                name: build.select(finite, node, self.nodes[name])
                for name, node in following.items()
            }
            numbers = {**numbers, FINITE: finite}
        outputs = {**numbers, **{f"{name}.next": node for name, node in following.items()}}
        return self._model("step", outputs, {name: f"{name}.next" for name in following})

    def _following(self, gradients: Mapping[str, Node]) -> dict[str, Node]:
        """The next value of all that changes."""
        training = self.training
        count = self.nodes[STEP]
        step = build.cast(count, self.wide)
        steps = self.nodes.get(LENGTH, step)
        now: dict[Rate, Node] = {}
        for name, rate in self.rates.items():
            factor = rate.factor(training.elaboration(), step, steps)
            now[rate] = build.mul(self.nodes[name], factor)
        found: dict[str, Node] = {}
        for name, gradient in gradients.items():
            optimizer: Optimizer = training.learns[name]
            weight, kept = self.nodes[name], self.slots[name]
            made = optimizer.update(training.elaboration(), weight, gradient, now[optimizer.rate], step, kept)  # fmt: skip
            found[name] = made.pop("w")
            found.update({f"optimizer.{slot}.{name}": node for slot, node in made.items()})
        found[STEP] = build.add(count, 1)
        return found

    def _clipped(self, gradients: Mapping[str, Node], most: float) -> tuple[dict[str, Node], Node]:
        """Gradients that are at most so long together, and whether they are finite."""
        total: Node | None = None
        for gradient in gradients.values():
            wide = build.compute(gradient)
            part = build.cast(build.reduce(build.mul(wide, wide), "add"), self.wide)
            total = part if total is None else build.add(total, part)
        assert total is not None
        length = build.sqrt(total)
        share = build.minimum(build.div(most, build.add(length, EPSILON)), 1.0)
        clipped = {
            name: build.cast(
                build.mul(build.compute(g), build.cast(share, g.type.dtype.compute)), g.type.dtype
            )
            for name, g in gradients.items()
        }
        finite = build.compare(build.apply1("abs", length), "lt", float("inf"))
        return clipped, finite


def _between(gradient: Node, most: float) -> Node:
    return build.minimum(build.maximum(gradient, -most), most)


def _filled(type: Type, value: float) -> Callable[[], Array]:
    return lambda: np.full(tuple(int(n) for n in type.shape), value).astype(type.dtype.numpy)  # type: ignore[arg-type]
