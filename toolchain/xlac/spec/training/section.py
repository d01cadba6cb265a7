"""The section `train` of a spec: its expressions as nodes of the model's graph, all else checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from xlac.ir.dims import Dim, Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Frame, Scope
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema.document import Merged, SpecEntry
from xlac.spec.schema.settings import DimValue
from xlac.spec.schema.training import ClipSpec, MeanSpec, TrainSpec
from xlac.spec.summary import statistics
from xlac.spec.training.counts import mean_count
from xlac.spec.training.optimizer import Optimizer, optimizer
from xlac.spec.weights.initial import draw, scheme_of
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


@dataclass(frozen=True, eq=False)
class BatchMean:
    """A mean over examples: a scalar, and how many numbers it is the mean of: by the sizes of a
    batch, or a scalar of the graph.
    """

    value: Node
    count: Dim | Node


@dataclass(frozen=True, eq=False)
class Training:
    """What a spec says of training. `learns` maps each weight that does to its optimizer."""

    graph: Graph  # the whole model, with its inputs
    loss: BatchMean
    metrics: Mapping[str, BatchMean]
    learns: Mapping[str, Optimizer]
    weights: Mapping[str, Node]  # every weight of the graph, by name
    clip: ClipSpec
    batch: str
    seed: int
    frozen_mode: tuple[str, ...]  # patterns of nodes that stay as they are in inference
    initial: Mapping[str, Callable[[], Any]]  # draws weights anew, by name; none go on from theirs
    elaboration: Callable[[], Elaboration]
    report: Report
    place: Place = field(repr=False)


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
    """What a spec says of training, some of whose sizes the caller has `fixed`; None where that
    goes to the report.
    """
    spec, place, report = entry.spec, entry.place, context.report
    before = len(report.found)
    reader = _Section(context, _with_weights(context, scope), place, symbols, spec.batch or "")
    if spec.batch is not None and spec.batch not in symbols and not isinstance(fixed.get(spec.batch), int):  # fmt: skip
        report.add("XL2004", f"there is no open size {spec.batch!r}", place.at("batch").span, nearest(spec.batch, symbols))  # fmt: skip
    loss = reader.mean(spec.loss, "loss", place.at("loss"))
    metrics = {
        name: reader.mean(text, name, place.at("metrics", name))
        for name, text in spec.metrics.items()
    }
    if "loss" in metrics:
        report.add("XL1021", "'loss' is reported anyway", place.at("metrics", "loss").key)
    if spec.clip is not None and spec.clip.norm is None and spec.clip.value is None:
        report.add("XL1012", "clip needs norm or value", place.at("clip").key, "clip: {norm: 1.0}")
    graph = Graph(merged.name, tuple(inputs), {**outputs, "": loss.value} if loss else outputs)
    learns = _learning(spec, merged, context, scope.constants, place, statistics(graph))
    initial = _initial(spec, context, place)
    named = {node.name for node in graph.order}
    for i, pattern in enumerate(spec.frozen_mode):
        if not any(fnmatchcase(name, pattern) for name in named) and not report.found:
            report.add("XL3011", f"this pattern fits no node: {pattern!r}", place.at("frozen_mode", i).span, nearest(pattern, named))  # fmt: skip
    if loss is None or len(report.found) > before:
        return None
    needed = set(Graph("loss", (), {"": loss.value}).order)
    if not any(context.weights[name] in needed for name in learns):
        report.add("XL2045", "the loss depends on no weight that learns", place.at("loss").span, "see wrt")  # fmt: skip
        return None
    kept = {name: metric for name, metric in metrics.items() if metric is not None}

    def again() -> Elaboration:
        return Elaboration(report, {}, merged.ops, Frame(), context.stored, context.handlers)

    training = Training(
        Graph(merged.name, tuple(inputs), outputs), loss, kept, learns, dict(context.weights), spec.clip or ClipSpec(),
        spec.batch or "", spec.seed, tuple(spec.frozen_mode), initial, again, report, place,
    )  # fmt: skip
    _check_optimizers(training)
    return training if len(report.found) == before else None


def _with_weights(context: Elaboration, scope: Scope) -> Scope:
    """What expressions of the section see: the graph's names, and weights by theirs."""
    inner = Scope(scope.frame, scope.constants, "train.", parent=scope)
    inner.values.update({n: node for n, node in context.weights.items() if not scope.values.get(n)})
    return inner


@dataclass
class _Section:
    """Reads the means of a section."""

    context: Elaboration
    scope: Scope
    place: Place
    symbols: Mapping[str, Symbol]
    batch: str

    def mean(self, text: Any, name: str, at: Place) -> BatchMean | None:
        """The mean that an expression is, or that `sum` and `count` make."""
        try:
            if isinstance(text, MeanSpec):
                total, number = (
                    self.scalar(part, f"{name}.{key}", at.at(key))
                    for key, part in (("sum", text.sum), ("count", text.count))
                )
                return BatchMean(build.div(total, build.cast(number, total.type.dtype)), number)
            value = self.scalar(text, name, at)
            return BatchMean(value, mean_count(value, self.scope.constants.dims.get(self.batch, 1)))
        except Fault as fault:
            self.context.report.fault(fault)
        except Poisoned:
            pass
        return None

    def scalar(self, text: Any, name: str, at: Place) -> Node:
        path = f"train.{name}"
        value = as_node(self.context, expression(self.context, self.scope, text, path, at), text, path, at)  # fmt: skip
        if value.shape:
            what = "the loss" if name == "loss" else repr(name)
            raise Fault("XL2009", f"{what} is {value.type}, and must be a scalar", at.span, "mean(…) makes one")  # fmt: skip
        if not value.type.dtype.is_float and not name.endswith("count"):
            made = build.cast(value, DType.F32)
            self.context.stamp([made], Origin(path, at.span))
            return made
        return value


def _learning(
    spec: TrainSpec, merged: Merged, context: Elaboration, constants: Constants, place: Place, measured: set[Node]
) -> dict[str, Optimizer]:  # fmt: skip
    """The weights that learn, each with its optimizer: that of the first group that fits."""
    report = context.report
    able = {
        name: node
        for name, node in context.weights.items()
        if node.type.dtype.is_float and node not in measured
    }
    for i, pattern in enumerate(spec.wrt):
        fits = any(fnmatchcase(name, pattern) for name in able)
        if spec.wrt != ["*"] and not fits and not report.found:
            report.add("XL3011", f"this pattern fits no weight that can learn: {pattern!r}", place.at("wrt", i).span, nearest(pattern, able))  # fmt: skip
    chosen = [name for name in able if any(fnmatchcase(name, pattern) for pattern in spec.wrt)]
    ((named, given),) = spec.optimizer.items()
    base = place.at("optimizer", named)
    made = {"": _made(merged, context, named, given, constants, base)}
    for pattern, own in spec.groups.items():
        at = place.at("groups", pattern)
        if not any(fnmatchcase(name, pattern) for name in chosen) and not report.found:
            report.add("XL3011", f"this pattern fits no weight that learns: {pattern!r}", at.key, nearest(pattern, chosen))  # fmt: skip
        group = GroupPlace(at.source, at.path, base, frozenset(own))
        made[pattern] = _made(merged, context, named, {**given, **own}, constants, group)
    found: dict[str, Optimizer] = {}
    for name in chosen:
        first = next((p for p in spec.groups if fnmatchcase(name, p)), "")
        one = made.get(first)
        if one is not None:
            found[name] = one
    return found


def _made(
    merged: Merged, context: Elaboration, name: str, given: Mapping[str, Any], constants: Constants, place: Place
) -> Optimizer | None:  # fmt: skip
    """An optimizer; what is wrong goes to the report."""
    try:
        return optimizer(merged, name, given, constants, place)
    except Fault as fault:
        context.report.fault(fault)
    except Poisoned:
        pass
    return None


@dataclass(frozen=True)
class GroupPlace(Place):
    """The parameters of a group: its own, and those of the optimizer's place that it has not."""

    base: Place | None = None
    own: frozenset[str] = frozenset()

    def at(self, *keys: str | int) -> Place:
        if self.base is not None and keys and keys[0] not in self.own:
            return self.base.at(*keys)
        return Place(self.source, self.path + keys)


def _initial(spec: TrainSpec, context: Elaboration, place: Place) -> dict[str, Callable[[], Any]]:
    """How weights are drawn anew, by name."""
    init = spec.init
    if init is None:
        return {}
    for pattern in init.tensors:
        if not any(fnmatchcase(name, pattern) for name in context.weights) and not context.report.found:  # fmt: skip
            context.report.add("XL3011", f"this pattern fits no tensor: {pattern!r}", place.at("init", "tensors", pattern).key, nearest(pattern, context.weights))  # fmt: skip

    def maker(name: str, type: Type) -> Callable[[], Any]:
        return lambda: draw(name, type, init.seed, scheme_of(name, type, init))

    return {name: maker(name, node.type) for name, node in context.weights.items() if all(isinstance(n, int) for n in node.shape)}  # fmt: skip


def _check_optimizers(training: Training) -> None:
    """Elaborates each optimizer once, on the first weight that it has."""
    seen: set[Optimizer] = set()
    for name, one in training.learns.items():
        if one in seen:
            continue
        seen.add(one)
        weight = training.weights[name]
        context = training.elaboration()
        wide = scalar_type(training)
        step, rate = (build.param(n, wide) for n in ("step", "lr"))
        try:
            one.rate.factor(context, step, step)
            kept = {slot: build.param(slot, weight.type.dtype, weight.shape) for slot in one.slots()}  # fmt: skip
            gradient = build.param("g", weight.type.dtype, weight.shape)
            one.update(context, weight, gradient, rate, step, kept)
        except Fault as fault:
            training.report.fault(fault)
        except Poisoned:
            pass


def scalar_type(training: Training) -> DType:
    """The type of rates: f64 where a weight is f64, else f32."""
    wide = any(training.weights[name].type.dtype is DType.F64 for name in training.learns)
    return DType.F64 if wide else DType.F32
