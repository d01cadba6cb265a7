"""Objectives: the losses, and the optimizer of each weight that learns from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema.document import Merged
from xlac.spec.schema.training import ClipSpec, LossSpec, TrainSpec
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.optimizer import Optimizer, optimizer, replacement

IN_TURN, TOGETHER = "in_turn", "together"
OWN = ("loss", "optimizer", "clip", "groups", "wrt")  # keys that each of several losses has itself

REPORTED = frozenset({"epoch", "step", "seconds", "finite", "loss_scale"})
"""Names that a step or a row of metrics.csv reports beside losses and metrics."""


@dataclass(frozen=True, eq=False)
class Values:
    """The nodes that a section needs: the model's outputs, losses and metrics; None in place of one
    with a mistake.
    """

    outputs: Mapping[str, Node]
    losses: Sequence[BatchMean | None]
    metrics: Mapping[str, BatchMean | None]

    def nodes(self) -> list[Node]:
        """All these nodes, in a fixed order."""
        nodes = list(self.outputs.values())
        for mean in (*self.losses, *self.metrics.values()):
            if mean is not None:
                nodes += mean.nodes()
        return nodes

    def graph(self, name: str) -> Graph:
        """A graph of the outputs and losses."""
        ends = {f"loss {n}": one.value for n, one in enumerate(self.losses) if one is not None}
        return Graph(name, (), {**self.outputs, **ends})

    def replaced(self, change: Callable[[Sequence[Node]], Sequence[Node]]) -> Values:
        """The same with all nodes rewritten at once by `change`."""
        nodes = self.nodes()
        new = dict(zip(nodes, change(nodes), strict=True))

        def moved(mean: BatchMean | None) -> BatchMean | None:
            return None if mean is None else mean.over(new[node] for node in mean.nodes())

        return Values(
            {name: new[node] for name, node in self.outputs.items()},
            [moved(mean) for mean in self.losses],
            {name: moved(mean) for name, mean in self.metrics.items()},
        )


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss, and the optimizer of each weight that learns from it. The only one is called ""."""

    name: str
    loss: BatchMean
    learns: Mapping[str, Optimizer]
    clip: ClipSpec

    @property
    def metric(self) -> str:
        """The name under which the loss is reported."""
        return self.name or "loss"


def losses(
    spec: TrainSpec, place: Place, context: Elaboration
) -> list[tuple[str, Place, LossSpec | TrainSpec]]:
    """The losses of a section, as (name, place, spec): one called "", or several. Missing and
    superfluous keys go to the report.
    """
    report, given = context.report, spec.model_fields_set
    if spec.losses is None:
        for key in ("loss", "optimizer"):
            if getattr(spec, key) is None:
                hint = "or several, as losses: {NAME: {loss: …, optimizer: …}}"
                report.add("XL1011", f"missing key {key!r} in 'train'", place.key, hint)
        if "order" in given:
            report.add(
                "XL2005",
                "order is for several losses",
                place.at("order").key,
                "losses: {NAME: {loss: …, optimizer: …}}",
            )
        named: list[tuple[str, Place, LossSpec | TrainSpec]] = [("", place, spec)]
    else:
        for key in OWN:
            if key in given:
                hint = f"losses: {{{next(iter(spec.losses))}: {{{key}: …}}}}"
                report.add(
                    "XL2005", f"each of several losses has its own {key!r}", place.at(key).key, hint
                )
        named = [(name, place.at("losses", name), one) for name, one in spec.losses.items()]
    for _, at, one in named:
        if one.clip is not None and one.clip.norm is None and one.clip.value is None:
            report.add("XL1012", "clip needs norm or value", at.at("clip").key, "clip: {norm: 1.0}")
    return named


def check_names(spec: TrainSpec, place: Place, report: Report) -> None:
    """Reports losses and metrics whose name is taken by another number that runs report, such as a
    metric on the validation data.
    """
    losses = list(spec.losses) if spec.losses else ["loss"]
    names = [*losses, *(name for name in spec.metrics if name not in losses)]
    taken = REPORTED | {f"validate_{name}" for name in names}
    if spec.ema:
        taken |= {f"{prefix}{name}" for name in names for prefix in ("ema_", "validate_ema_")}
    at = [(name, place.at("losses", name)) for name in spec.losses or {} if name in taken]
    at += [(n, place.at("metrics", n)) for n in spec.metrics if n in taken or n in losses]
    for name, where in at:
        report.add("XL1021", f"{name!r} is always reported", where.key)


def learning(
    spec: LossSpec | TrainSpec,
    merged: Merged,
    context: Elaboration,
    constants: Constants,
    place: Place,
    able: Mapping[str, Node],
    factors: Mapping[str, Node],
) -> dict[str, Optimizer]:
    """The optimizer of each weight that learns from a loss, out of those that are `able` to: that
    of the first group whose pattern matches, else the loss's own. With LoRA `factors`, these learn,
    and other weights only if `wrt` names them; of several losses, the one whose `wrt` names a
    factor has it. Mistakes go to the report.
    """
    report, said = context.report, "wrt" in spec.model_fields_set
    known = {**able, **factors}
    for i, pattern in enumerate(spec.wrt):
        fits = any(fnmatchcase(name, pattern) for name in known)
        if spec.wrt != ["*"] and not fits and not report.diagnostics:
            report.add(
                "XL3011",
                f"this pattern fits no weight that can learn: {pattern!r}",
                place.at("wrt", i).span,
                nearest(pattern, known),
            )
    wrt = spec.wrt if said or not factors else []
    chosen = [name for name in known if any(fnmatchcase(name, pattern) for pattern in wrt)]
    if isinstance(spec, TrainSpec) or not said:
        chosen += [name for name in factors if name not in chosen]
    ((named, given),) = (spec.optimizer or {"": {}}).items()
    if not named:
        return {}
    base = place.at("optimizer", named)
    made = {"": _optimizer_or_none(merged, context, named, given, constants, base)}
    for pattern, own in spec.groups.items():
        at = place.at("groups", pattern)
        if not any(fnmatchcase(name, pattern) for name in chosen) and not report.diagnostics:
            report.add(
                "XL3011",
                f"this pattern fits no weight that learns: {pattern!r}",
                at.key,
                nearest(pattern, chosen),
            )
        other = replacement(merged, named, own)
        if other:
            made[pattern] = _optimizer_or_none(
                merged, context, other, own[other], constants, at.at(other), pattern
            )
            continue
        group = GroupPlace(at.source, at.path, base, frozenset(own))
        made[pattern] = _optimizer_or_none(
            merged, context, named, {**given, **own}, constants, group, pattern
        )
    optimizers: dict[str, Optimizer] = {}
    for name in chosen:
        first = next((p for p in spec.groups if fnmatchcase(name, p)), "")
        one = made.get(first)
        if one is not None:
            optimizers[name] = one
    return optimizers


def _optimizer_or_none(
    merged: Merged,
    context: Elaboration,
    name: str,
    given: Mapping[str, Any],
    constants: Constants,
    place: Place,
    group: str = "",
) -> Optimizer | None:
    """An optimizer; mistakes go to the report, and give None."""
    try:
        return optimizer(merged, name, given, constants, place, group)
    except Fault as fault:
        context.report.fault(fault)
    except Poisoned:
        pass
    return None


@dataclass(frozen=True)
class GroupPlace(Place):
    """The place of a group's parameters: for those that it does not set, the optimizer's place."""

    base: Place | None = None
    own: frozenset[str] = frozenset()

    def at(self, *keys: str | int) -> Place:
        if self.base is not None and keys and keys[0] not in self.own:
            return self.base.at(*keys)
        return Place(self.source, self.path + keys)


def check_objectives(
    objectives: list[Objective],
    order: str,
    weights: Mapping[str, Node],
    context: Elaboration,
    places: list[Place],
) -> None:
    """Reports losses that depend on no weight that learns from them, and weights that learn from
    two losses at once.
    """
    taken: dict[str, str] = {}
    for one, place in zip(objectives, places, strict=True):
        needed = set(Graph("loss", (), {"": one.loss.value}).order)
        if not any(weights[name] in needed for name in one.learns):
            context.report.add(
                "XL2045",
                "the loss depends on no weight that learns",
                place.at("loss").span,
                "see wrt",
            )
        for name in one.learns:
            if name in taken and order == TOGETHER:
                problem = (
                    f"{name!r} learns from {taken[name]!r} already, and from one loss at a "
                    "time where losses learn together"
                )
                hint = "order: in_turn, or a wrt for each that leaves out what the other has"
                context.report.add("XL2047", problem, place.key, hint)
                break
            taken[name] = one.name


def nodes_asked(
    objectives: Iterable[Objective], metrics: Mapping[str, BatchMean]
) -> dict[str, Node]:
    """What losses and metrics need of the graph, by names that no output has."""
    means = [*(objective.loss for objective in objectives), *metrics.values()]
    nodes = [node for mean in means for node in mean.nodes()]
    return {f"asked {number}": node for number, node in enumerate(nodes)}
