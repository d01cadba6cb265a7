"""Gradient accumulation: sums over the micro-batches of a step, kept in the training state.

A loss is a mean over some count of elements. Each micro-batch adds its gradient times its count to
a sum; the last one divides by the total count, which gives the gradient of the undivided batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
                f"accumulate.gradient{part}.{name}", type.with_dtype(type.dtype.compute)
            )
            for name, type in weights.items()
        }


class Accumulation:
    """State that a step's micro-batches add to: the sums of each mean of a loss, and running
    statistics such as batch_norm's, by the names in `measured`. Raises Fault for a section whose
    batches cannot be divided.
    """

    def __init__(self, state: TrainingState, training: Training, measured: list[str]) -> None:
        _check_divisible(training)
        self.number = state.transient(NUMBER, Type(DType.I64))
        self.first = build.compare(self.number, "eq", 0)
        self.means: dict[str, list[MeanSums]] = {}
        for objective in training.objectives:
            loss = objective.loss
            names = [f".{n}" for n in range(1, len(loss.parts) + 1)] or [""]
            weights = {name: training.weights[name].type for name in objective.learns}
            end = f".{objective.name}" if objective.name else ""
            self.means[objective.name] = [MeanSums(state, end, n, weights) for n in names]
        self.statistics = {
            state.nodes[name]: state.transient(f"accumulate.{name}", state.nodes[name].type)
            for name in measured
        }

    def random_counter(self, step: Node) -> Node:
        """The counter of random numbers, i64: distinct for each micro-batch of each step."""
        return build.add(step, build.mul(self.number, 2**STEP_BITS))


class MicroBatch:
    """The graph of one micro-batch, which may be the `last` of its step; `following` holds the next
    values of the sums, by name.
    """

    def __init__(self, sums: Accumulation, last: bool) -> None:
        self.sums, self.last = sums, last
        number = build.mul(sums.number, 0) if last else build.add(sums.number, 1)
        self.following: dict[str, Node] = {NUMBER: number}

    def accumulated(
        self, objective: Objective, mean: BatchMean, gradients: Sequence[Mapping[str, Node]]
    ) -> tuple[Node, dict[str, Node], list[Node]]:
        """The loss and its gradients by weight over all micro-batches up to this one; and, where
        the data decide it, a flag that a count is not 0. Each mean whose sum is the loss is divided
        by its own total count. `gradients` are those of each of these means in this micro-batch.
        """
        sums = self.sums.means[objective.name]
        value: Node | None = None
        found: dict[str, Node] = {}
        some: list[Node | None] = []
        for one, kept, changes in zip(mean.means, sums, gradients, strict=True):
            wide = kept.count.type.dtype
            number = _count_as_scalar(one.count, wide)
            guard = number if isinstance(one.count, Node) else None
            total = self._sum(kept.count, number)
            some.append(None if guard is None else build.compare(total, "ne", 0.0))
            part = _times_count(build.cast(one.value, wide), number, guard)
            share = _divided(self._sum(kept.value, part), total, some[-1] if mean.parts else None)
            value = share if value is None else build.add(value, share)
            for weight, gradient in changes.items():
                compute = gradient.type.dtype.compute
                part = _times_count(
                    build.cast(gradient, compute), build.cast(number, compute), guard
                )
                added = self._sum(kept.gradients[weight], part)
                share = _divided(added, build.cast(total, compute), some[-1])
                share = build.cast(share, gradient.type.dtype)
                found[weight] = build.add(found[weight], share) if weight in found else share
        assert value is not None
        return build.cast(value, mean.value.type.dtype), found, any_of(some)

    def measured(self, measured: Mapping[Node, Node]) -> dict[str, Node]:
        """The next values of running statistics by name. Micro-batches before the last write them
        to the transient sums, so that a step that fails leaves the state itself unchanged.
        """
        found: dict[str, Node] = {}
        for node, new in measured.items():
            before = self.sums.statistics[node]
            now = build.select(self.sums.first, node, before)
            name = param(node if self.last else before).name
            (found[name],) = substituted([new], {node: now})
        return found

    def _sum(self, before: Node, part: Node) -> Node:
        added = build.select(self.sums.first, part, build.add(before, part))
        if not self.last:
            self.following[param(before).name] = added
        return added


def no_micro_batches() -> SourceError:
    """The error for calling `accumulate` where a step is not divided into micro-batches."""
    problem = "a step takes its whole batch at once, so there are no micro-batches to add up"
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
    if len(training.objectives) > 1 and training.in_turn:
        problem = (
            "each loss begins with what those before it have left, "
            "so micro-batches of several cannot be added up"
        )
        raise Fault("XL2056", problem, place.span, "order: together, or one loss")
    if not training.batch:
        raise Fault(
            "XL2056", "which size counts the examples is not said", place.span, "batch: batch"
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
