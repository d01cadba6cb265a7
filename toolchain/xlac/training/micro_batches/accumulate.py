"""Gradient accumulation: sums over the micro-batches of a step, kept in the training state.

A loss is a mean over some count of elements. Each micro-batch adds its gradient times its count to
a sum; the last one divides by the total count, which gives the gradient of the undivided batch.

Losses that learn in turn have a pass over the micro-batches each. A loss needs the weights as those
before it have left them: they are computed again from the finished sums, so that nothing is written
before the last micro-batch of the last pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xlac.ir.dims import Dim, symbols
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.report import Fault
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.objective import Objective
from xlac.spec.training.section import Training
from xlac.training.scaling import any_of
from xlac.training.state import TrainingState
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

NUMBER = "accumulate.number"  # state: index of the micro-batch within its step
ACCUMULATE = (
    "accumulate"  # the entry for a micro-batch before the last; of losses in turn, a prefix
)
STEP_BITS = 40  # of the random counter: the low bits are the step, those above the micro-batch


class MeanSums:
    """State that the micro-batches of one mean add to: its value and gradients by weight (in their
    compute types), each times its count, and the counts.
    """

    def __init__(
        self, state: TrainingState, loss: str, part: str, weights: Mapping[str, Type]
    ) -> None:
        wide = Type(state.wide)
        self.value = state.transient(f"accumulate.loss{loss}{part}", wide)
        self.count = state.transient(f"accumulate.count{loss}{part}", wide)
        self.gradients = {
            name: state.transient(
                f"accumulate.gradient{loss}{part}.{name}", type.with_dtype(type.dtype.compute)
            )
            for name, type in weights.items()
        }


@dataclass(frozen=True, eq=False)
class Total:
    """The sums of one mean over the micro-batches so far, and whether data decide its count."""

    value: Node
    count: Node
    gradients: Mapping[str, Node]
    may_be_empty: bool


class Accumulation:
    """State that a step's micro-batches add to: the sums of each mean of a loss, and running
    statistics such as batch_norm's, by the names in `measured`. Raises Fault for a section whose
    batches cannot be divided.

    `passes` are the losses of each pass over the micro-batches, `numbers` the index of the next
    micro-batch in each.
    """

    def __init__(self, state: TrainingState, training: Training, measured: list[str]) -> None:
        _check_divisible(training)
        losses = training.objectives
        in_turn = training.in_turn and len(losses) > 1
        self.passes: list[tuple[Objective, ...]] = (
            [(loss,) for loss in losses] if in_turn else [tuple(losses)]
        )
        ends = [f".{loss.name}" for loss in losses] if in_turn else [""]
        self.numbers = {f"{NUMBER}{end}": Type(DType.I64) for end in ends}
        self.number_nodes = [state.transient(*one) for one in self.numbers.items()]
        self.means: dict[str, list[MeanSums]] = {}
        for objective in training.objectives:
            loss = objective.loss
            names = [f".{n}" for n in range(1, len(loss.parts) + 1)] or [""]
            weights = {name: training.weights[name].type for name in objective.learns}
            end = f".{objective.name}" if objective.name else ""
            self.means[objective.name] = [MeanSums(state, end, n, weights) for n in names]
        self.types = {name: training.weights[name].type.dtype for name in training.learns}
        self.statistics = {
            state.nodes[name]: state.transient(f"accumulate.{name}", state.nodes[name].type)
            for name in measured
        }

    def entry(self, number: int) -> str:
        """The name of the program of a micro-batch that ends no step, in a pass."""
        return (
            ACCUMULATE if len(self.passes) == 1 else f"{ACCUMULATE}_{self.passes[number][0].name}"
        )


class MicroBatch:
    """The graph of one micro-batch in the pass `number`, which may be the `last` of its step;
    `following` holds the next values of the sums, by name.
    """

    def __init__(self, sums: Accumulation, number: int, last: bool) -> None:
        self.sums, self.last, self.learning = sums, last, sums.passes[number]
        self.learned = tuple(loss for losses in sums.passes[:number] for loss in losses)
        self.is_first_pass = number == 0
        self.number = sums.number_nodes[number]
        self.first = build.compare(self.number, "eq", 0)
        nodes = dict(zip(sums.numbers, sums.number_nodes, strict=True))
        self.following: dict[str, Node] = (
            {name: build.mul(node, 0) for name, node in nodes.items()}
            if last
            else {param(self.number).name: build.add(self.number, 1)}
        )

    def random_counter(self, step: Node) -> Node:
        """The counter of random numbers, i64: distinct for each micro-batch of each step, and the
        same in all passes.
        """
        return build.add(step, build.mul(self.number, 2**STEP_BITS))

    def accumulated(
        self, objective: Objective, mean: BatchMean, gradients: Sequence[Mapping[str, Node]]
    ) -> tuple[Node, dict[str, Node], list[Node]]:
        """The loss and its gradients by weight over all micro-batches up to this one; and, where
        the data decide it, a flag that a count is not 0. Each mean whose sum is the loss is divided
        by its own total count. `gradients` are those of each of these means in this micro-batch.
        """
        totals: list[Total] = []
        for one, kept, changes in zip(
            mean.means, self.sums.means[objective.name], gradients, strict=True
        ):
            wide = kept.count.type.dtype
            number = _count_as_scalar(one.count, wide)
            guard = number if isinstance(one.count, Node) else None
            value = _times_count(build.cast(one.value, wide), number, guard)
            parts = {
                weight: _times_count(
                    build.cast(gradient, gradient.type.dtype.compute),
                    build.cast(number, gradient.type.dtype.compute),
                    guard,
                )
                for weight, gradient in changes.items()
            }
            totals.append(
                Total(
                    self._sum(kept.value, value),
                    self._sum(kept.count, number),
                    {name: self._sum(kept.gradients[name], part) for name, part in parts.items()},
                    guard is not None,
                )
            )
        return _from_totals(mean, totals, {n: g.type.dtype for n, g in gradients[0].items()})

    def summed(
        self, objective: Objective, mean: BatchMean
    ) -> tuple[Node, dict[str, Node], list[Node]]:
        """The same for a loss of an earlier pass, all of whose micro-batches are in the sums."""
        totals = [
            Total(kept.value, kept.count, kept.gradients, isinstance(one.count, Node))
            for one, kept in zip(mean.means, self.sums.means[objective.name], strict=True)
        ]
        types = {name: self.sums.types[name] for name in objective.learns}
        return _from_totals(mean, totals, types)

    def measured(self, measured: Mapping[Node, Node], earlier: Iterable[Node]) -> dict[str, Node]:
        """The next values of running statistics by name; `earlier` are those that earlier passes
        have measured. Micro-batches before the last write them to the transient sums, so that a
        step that fails leaves the state itself unchanged.
        """
        following: dict[str, Node] = {}
        known = set(earlier)
        for node, new in measured.items():
            before = self.sums.statistics[node]
            now = before if node in known else build.select(self.first, node, before)
            name = param(node if self.last else before).name
            (following[name],) = substituted([new], {node: now})
        if self.last:
            rest = [node for node in self.sums.statistics if node in known - measured.keys()]
            following |= {param(node).name: self.sums.statistics[node] for node in rest}
        return following

    def _sum(self, before: Node, part: Node) -> Node:
        added = build.select(self.first, part, build.add(before, part))
        if not self.last:
            self.following[param(before).name] = added
        return added


def no_micro_batches(known: Iterable[str]) -> SourceError:
    """The error for micro-batches that a step does not have; `known` are the entries of those that
    it has.
    """
    problem = "a step takes its whole batch at once, so there are no micro-batches to add up"
    if entries := ", ".join(known):
        problem = f"the micro-batches of this spec are added up by {entries}"
        return SourceError(Diagnostic("XL6045", problem, hint=f"--entry {entries.split(',')[0]}"))
    return SourceError(
        Diagnostic("XL6045", problem, hint="train: {accumulate: 4}, or --entry step")
    )


def _times_count(value: Node, number: Node, count: Node | None) -> Node:
    """A mean times its count. 0 where the data decide that the count is 0: the mean is NaN then."""
    product = build.mul(value, number)
    return (
        product
        if count is None
        else build.select(build.compare(number, "eq", 0.0), build.like(0.0, product), product)
    )


def _from_totals(
    mean: BatchMean, totals: Sequence[Total], types: Mapping[str, DType]
) -> tuple[Node, dict[str, Node], list[Node]]:
    """A loss and its gradients by weight (of `types`) from the sums of each of its means; and,
    where the data decide it, a flag that a count is not 0.
    """
    value: Node | None = None
    gradients: dict[str, Node] = {}
    some: list[Node | None] = []
    for one in totals:
        some.append(build.compare(one.count, "ne", 0.0) if one.may_be_empty else None)
        share = _divided(one.value, one.count, some[-1] if mean.parts else None)
        value = share if value is None else build.add(value, share)
        for weight, total in one.gradients.items():
            share = _divided(total, build.cast(one.count, total.type.dtype), some[-1])
            share = build.cast(share, types[weight])
            gradients[weight] = (
                build.add(gradients[weight], share) if weight in gradients else share
            )
    assert value is not None
    return build.cast(value, mean.value.type.dtype), gradients, any_of(some)


def _divided(value: Node, total: Node, some: Node | None) -> Node:
    """A sum divided by its count; 0 where the flag `some` says that the count is 0."""
    share = build.div(value, total)
    return share if some is None else build.select(some, share, build.like(0.0, share))


def _count_as_scalar(count: Dim | Node, dtype: DType) -> Node:
    """The count of a mean, as a scalar node."""
    if isinstance(count, Node):
        return build.cast(count, dtype)
    if isinstance(count, int):
        return build.constant(float(count), dtype)
    return build.cast(Node.of(DimSize(0), build.full(False, (count,), DType.BOOL)), dtype)


def _check_divisible(training: Training) -> None:
    """Raises Fault where batches cannot be divided into micro-batches."""
    place = training.place.at("accumulate")
    if not training.batch:
        raise Fault(
            "XL2056", "it is not given which size counts the examples", place.span, "batch: batch"
        )
    for node in training.graph.inputs:
        for size in node.shape:
            names = {one.name for one in symbols(size)}
            if training.batch in names and str(size) != training.batch:
                problem = (
                    f"{param(node).name} is {node.type}, "
                    f"and can be cut only where an axis is the size {training.batch!r}"
                )
                raise Fault("XL2056", problem, place.span)
