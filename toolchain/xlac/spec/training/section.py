"""Reads the section `train` of a spec: elaborates its expressions to nodes of the model's graph,
and checks everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from xlac.ir.dims import Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.scope import Frame, Scope
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema.document import Merged, SpecEntry
from xlac.spec.schema.settings import DimValue
from xlac.spec.schema.training import TrainSpec
from xlac.spec.summary import statistics
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.ema import ExponentialAverage, read_average
from xlac.spec.training.lora import LowRank, low_rank, with_factors
from xlac.spec.training.loss_scale import LossScale, loss_scale
from xlac.spec.training.objective import (
    IN_TURN,
    Objective,
    Values,
    check_objectives,
    learning,
    losses,
)
from xlac.spec.training.optimizer import Optimizer
from xlac.spec.training.products import multiplies
from xlac.spec.training.rates import built_in
from xlac.spec.training.section_values import SectionReader, learnable, objectives_of
from xlac.spec.weights.initial import draw, scheme_of
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, eq=False)
class Training:
    """The section `train`. With several objectives, each updates the weights as the ones before it
    have left them, if `in_turn`; else all gradients are taken at the same weights.
    """

    graph: Graph  # the whole model, with its inputs
    objectives: tuple[Objective, ...]
    in_turn: bool
    metrics: Mapping[str, BatchMean]  # besides the losses
    weights: Mapping[str, Node]  # every weight of the graph, by name
    batch: str
    seed: int
    frozen_mode: tuple[str, ...]  # patterns of nodes that stay in inference mode
    initial: Mapping[str, Callable[[], Any]]  # random initial values by weight; others are loaded
    elaboration: Callable[[], Elaboration]
    report: Report
    place: Place = field(repr=False)
    compute: DType = DType.F32  # of matrix products in a step
    accumulate: int = 1  # micro-batches of a step
    factors: Mapping[str, LowRank] = field(default_factory=dict)  # LoRA, by the frozen weight
    ema: ExponentialAverage | None = None
    scale: LossScale | None = None  # of the loss, for its gradients
    finite: bool = False  # whether gradients are checked to be finite
    shard: str | None = None  # what ranks along the mesh axis `data` hold in parts
    statistics: str = "global"  # of a batch_norm: of the batch, or of each rank's part (local)
    parts: int = 1  # of the batch, with statistics of their own

    @property
    def learns(self) -> dict[str, Optimizer]:
        """The weights that learn, each with the first optimizer that updates it."""
        optimizers: dict[str, Optimizer] = {}
        for objective in self.objectives:
            for name, one in objective.learns.items():
                optimizers.setdefault(name, one)
        return optimizers


def read_training(
    entry: SpecEntry[TrainSpec],
    merged: Merged,
    context: Elaboration,
    scope: Scope,
    outputs: Mapping[str, Node],
    inputs: list[Node],
    symbols: Mapping[str, Symbol],
    fixed: Mapping[str, DimValue],
) -> Training | None:
    """Reads the section; None after mistakes, all reported. `fixed`: sizes that callers fix."""
    spec, place, report = entry.spec, entry.place, context.report
    before = len(report.diagnostics)
    reader = SectionReader(context, _with_weights(context, scope), place, symbols, spec.batch or "")
    _check_batch(spec, symbols, fixed, place, report)
    asked = losses(spec, place, context)
    values = reader.values(spec, asked, outputs)
    able = learnable(context, statistics(values.graph(merged.name)))
    factors = low_rank(spec.lora, able, values.nodes(), place, context)
    values = _with_factors(values, factors, context)
    able = {name: node for name, node in able.items() if name not in factors}
    parts = {node.name: node for one in factors.values() for node in (one.a, one.b)}
    learns = [
        learning(one, merged, context, scope.constants, at, able, parts) for _, at, one in asked
    ]
    initial = _initial(spec, context, place) | _initial_factors(spec, factors)
    _check_frozen(spec, values.graph(merged.name), context, place)
    objectives = objectives_of(asked, values, learns)
    if len(report.diagnostics) > before or len(objectives) < len(asked):  # of nodes that are wrong
        return None
    order = spec.order or IN_TURN
    weights = {**context.weights, **parts}
    check_objectives(objectives, order, weights, context, [at for _, at, _ in asked])
    _check_compute(spec, objectives, place, report)
    kept = {name: metric for name, metric in values.metrics.items() if metric is not None}
    again = lambda: Elaboration(report, {}, merged.ops, Frame(), context.stored, context.handlers)
    training = Training(
        Graph(merged.name, tuple(inputs), values.outputs),
        tuple(objectives),
        order == IN_TURN,
        kept,
        weights,
        spec.batch or "",
        spec.seed,
        tuple(spec.frozen_mode),
        initial,
        again,
        report,
        place,
        DType(spec.compute),
        spec.accumulate,
        factors,
        read_average(spec.ema, context, scope.constants, place.at("ema")) if spec.ema else None,
        loss_scale(spec),
        spec.finite,
        spec.shard,
        spec.statistics,
    )
    _check_optimizers(training)
    return training if len(report.diagnostics) == before else None


def _check_batch(
    spec: TrainSpec,
    symbols: Mapping[str, Symbol],
    fixed: Mapping[str, DimValue],
    place: Place,
    report: Report,
) -> None:
    """Reports a batch that is not an open size, and none that the caller has fixed."""
    if (
        spec.batch is not None
        and spec.batch not in symbols
        and not isinstance(fixed.get(spec.batch), int)
    ):
        report.add(
            "XL2004",
            f"there is no open size {spec.batch!r}",
            place.at("batch").span,
            nearest(spec.batch, symbols),
        )


def _initial_factors(
    spec: TrainSpec, factors: Mapping[str, LowRank]
) -> dict[str, Callable[[], Any]]:
    """What the factors of weights of low rank begin with, by name."""
    seed = spec.seed if spec.init is None else spec.init.seed
    return {n: factor for one in factors.values() for n, factor in one.initial(seed).items()}


def _with_factors(values: Values, factors: Mapping[str, LowRank], context: Elaboration) -> Values:
    """The values with LoRA factors applied to their weights; mistakes go to the report."""
    if not factors:
        return values
    try:
        return values.replaced(lambda roots: with_factors(roots, factors, context))
    except Fault as fault:
        context.report.fault(fault)
    return values


def _check_compute(
    spec: TrainSpec, objectives: list[Objective], place: Place, report: Report
) -> None:
    """Reports a `compute` type where the losses have no product that would use it."""
    if spec.compute != "f32" and not any(
        multiplies(one.loss.value, DType.F32) for one in objectives
    ):
        report.add(
            "XL2055",
            f"nothing is computed in {spec.compute}: the loss has no product of f32",
            place.at("compute").span,
            "leave compute out",
        )


def _check_frozen(spec: TrainSpec, graph: Graph, context: Elaboration, place: Place) -> None:
    """Reports patterns of `frozen_mode` that match no node."""
    named = {node.name for node in graph.order}
    for i, pattern in enumerate(spec.frozen_mode):
        if not any(fnmatchcase(name, pattern) for name in named) and not context.report.diagnostics:
            context.report.add(
                "XL3011",
                f"this pattern fits no node: {pattern!r}",
                place.at("frozen_mode", i).span,
                nearest(pattern, named),
            )


def _with_weights(context: Elaboration, scope: Scope) -> Scope:
    """The scope of the section's expressions: names of the graph, and of weights."""
    inner = Scope(scope.frame, scope.constants, "train.", parent=scope)
    inner.values.update({n: node for n, node in context.weights.items() if not scope.values.get(n)})
    return inner


def _initial(spec: TrainSpec, context: Elaboration, place: Place) -> dict[str, Callable[[], Any]]:
    """Functions that make random initial values, by weight, where `init` asks for them."""
    init = spec.init
    if init is None:
        return {}
    for pattern in init.tensors:
        if (
            not any(fnmatchcase(name, pattern) for name in context.weights)
            and not context.report.diagnostics
        ):
            context.report.add(
                "XL3011",
                f"this pattern fits no tensor: {pattern!r}",
                place.at("init", "tensors", pattern).key,
                nearest(pattern, context.weights),
            )

    def maker(name: str, type: Type) -> Callable[[], Any]:
        return lambda: draw(name, type, init.seed, scheme_of(name, type, init))

    return {
        name: maker(name, node.type)
        for name, node in context.weights.items()
        if all(isinstance(n, int) for n in node.shape)
    }


def _check_optimizers(training: Training) -> None:
    """Elaborates each optimizer once for each rank of its weights, to report mistakes in it."""
    seen: set[tuple[Optimizer, int]] = set()
    wrong: set[Optimizer] = set()
    pairs = [pair for objective in training.objectives for pair in objective.learns.items()]
    for name, one in pairs:
        weight = training.weights[name]
        try:
            if one not in wrong:
                one.check(name, weight.type)
        except Fault as fault:
            training.report.fault(fault)
            wrong.add(one)
        if one in wrong or (one, weight.type.rank) in seen:
            continue
        seen.add((one, weight.type.rank))
        context = training.elaboration()
        wide = scalar_type(training)
        step, rate = (build.param(n, wide) for n in ("step", "lr"))
        try:
            one.rate.factor(context, step, step)
            one.rate.check(context)
            kept = {
                n: build.param(n, t.dtype, t.shape) for n, (t, _) in one.slots(weight.type).items()
            }
            gradient = build.param("g", weight.type.dtype, weight.shape)
            one.update(context, weight, gradient, rate, step, kept)
        except Fault as fault:
            training.report.fault(_at_spec(fault, one))
            wrong.add(one)
        except Poisoned:
            wrong.add(one)


def _at_spec(fault: Fault, one: Optimizer) -> Fault:
    """A fault inside a built-in optimizer, moved to the place where the spec names it."""
    diagnostic = fault.diagnostic
    if diagnostic.span is None or diagnostic.span.file != built_in().at.span.file:
        return fault
    return Fault(
        diagnostic.code,
        f"optimizer {one.name!r}: {diagnostic.message}",
        one.place.key,
        diagnostic.hint,
    )


def scalar_type(training: Training) -> DType:
    """The dtype of learning rates and other scalars: f64 where a weight is f64, else f32."""
    wide = any(training.weights[name].type.dtype is DType.F64 for name in training.learns)
    return DType.F64 if wide else DType.F32
