"""Gradient accumulation: the sums of a step's micro-batches, kept in the state between their calls.

The gradient of a micro-batch times how many numbers its loss is the mean of is added to a sum, and
the step divides it by how many there were in all: as one batch of all examples would have it.
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

NUMBER = "accumulate.number"  # micro-batches of the present step that came before
APART = 40  # bits: what is drawn counts steps below, and micro-batches above


class MeanSums:
    """What micro-batches of one mean add up to: the mean and the gradients, each times how many
    numbers it is of, and these numbers.
    """

    def __init__(self, state: TrainingState, loss: str, part: str, weights: Mapping[str, Type]) -> None:  # fmt: skip
        wide = Type(state.wide)
        self.value = state.passing(f"accumulate.loss{loss}{part}", wide)
        self.count = state.passing(f"accumulate.count{loss}{part}", wide)
        self.gradients = {
            name: state.passing(f"accumulate.gradient{part}.{name}", type.with_dtype(type.dtype.compute))
            for name, type in weights.items()
        }  # fmt: skip


class Accumulation:
    """The sums of micro-batches, as state: gradients, and what they are the means of, by loss;
    what operations measured. Raises Fault for a section that has no sums.
    """

    def __init__(self, state: TrainingState, training: Training, measured: list[str]) -> None:
        _check(training)
        self.number = state.passing(NUMBER, Type(DType.I64))
        self.first = build.compare(self.number, "eq", 0)
        self.means: dict[str, list[MeanSums]] = {}
        for objective in training.objectives:
            loss = objective.loss
            names = [f".{n}" for n in range(1, len(loss.parts) + 1)] or [""]
            weights = {name: training.weights[name].type for name in objective.learns}
            end = f".{objective.name}" if objective.name else ""
            self.means[objective.name] = [MeanSums(state, end, n, weights) for n in names]
        self.statistics = {
            state.nodes[name]: state.passing(f"accumulate.{name}", state.nodes[name].type)
            for name in measured
        }

    def drawn(self, step: Node) -> Node:
        """What random numbers count: steps, and the micro-batches of each."""
        return build.add(step, build.mul(self.number, 2**APART))


class MicroBatch:
    """One micro-batch, the last of a step or not; `following` are the next values of the sums."""

    def __init__(self, kept: Accumulation, last: bool) -> None:
        self.kept, self.last = kept, last
        number = build.mul(kept.number, 0) if last else build.add(kept.number, 1)
        self.following: dict[str, Node] = {NUMBER: number}

    def gathered(
        self, objective: Objective, mean: BatchMean, gradients: Sequence[Mapping[str, Node]]
    ) -> tuple[Node, dict[str, Node], list[Node]]:
        """The loss and the gradients of all micro-batches up to this one, and whether anything was
        counted, where the data decide that: each of the means that the loss is the sum of over as
        many numbers as it has in all. `gradients` are theirs in this one.
        """
        sums = self.kept.means[objective.name]
        value: Node | None = None
        found: dict[str, Node] = {}
        some: list[Node | None] = []
        for one, kept, changes in zip(mean.means, sums, gradients, strict=True):
            wide = kept.count.type.dtype
            number = _number(one.count, wide)
            guard = number if isinstance(one.count, Node) else None
            total = self._sum(kept.count, number)
            some.append(None if guard is None else build.compare(total, "ne", 0.0))
            part = _weighed(build.cast(one.value, wide), number, guard)
            share = _shared(self._sum(kept.value, part), total, some[-1] if mean.parts else None)
            value = share if value is None else build.add(value, share)
            for weight, gradient in changes.items():
                compute = gradient.type.dtype.compute
                part = _weighed(build.cast(gradient, compute), build.cast(number, compute), guard)
                added = self._sum(kept.gradients[weight], part)
                share = _shared(added, build.cast(total, compute), some[-1])
                share = build.cast(share, gradient.type.dtype)
                found[weight] = build.add(found[weight], share) if weight in found else share
        assert value is not None
        return build.cast(value, mean.value.type.dtype), found, any_of(some)

    def measured(self, measured: Mapping[Node, Node]) -> dict[str, Node]:
        """The next values of what operations measure, which go on from the micro-batch before:
        those of the state itself only after the last.
        """
        found: dict[str, Node] = {}
        for node, new in measured.items():
            before = self.kept.statistics[node]
            now = build.select(self.kept.first, node, before)
            name = param(node if self.last else before).name
            (found[name],) = substituted([new], {node: now})
        return found

    def _sum(self, before: Node, part: Node) -> Node:
        added = build.select(self.kept.first, part, build.add(before, part))
        if not self.last:
            self.following[param(before).name] = added
        return added


def no_micro_batches() -> SourceError:
    """What is said where a micro-batch is asked for, and a step has one only."""
    problem = "a step takes its whole batch at once, so there are no micro-batches to add up"
    return SourceError(Diagnostic("XL6045", problem, hint="train: {accumulate: 4}, or --entry step"))  # fmt: skip


def _weighed(value: Node, number: Node, count: Node | None) -> Node:
    """A mean times what it is the mean of: nothing where the data had none."""
    product = build.mul(value, number)
    return product if count is None else build.select(build.compare(number, "eq", 0.0), build.like(0.0, product), product)  # fmt: skip


def _shared(value: Node, total: Node, some: Node | None) -> Node:
    """A sum over how many numbers it is of: 0 where it is of none, in case that may be."""
    share = build.div(value, total)
    return share if some is None else build.select(some, share, build.like(0.0, share))


def _number(count: Dim | Node, dtype: DType) -> Node:
    """How many numbers a mean is of, as a scalar."""
    if isinstance(count, Node):
        return build.cast(count, dtype)
    if isinstance(count, int):
        return build.constant(float(count), dtype)
    return build.cast(Node.of(DimSize(0), build.full(False, (count,), DType.BOOL)), dtype)


def _check(training: Training) -> None:
    """Sees that batches can be cut. Raises Fault."""
    place = training.place.at("accumulate")
    if len(training.objectives) > 1 and training.in_turn:
        problem = "each loss begins with what those before it have left, so micro-batches of several cannot be added up"  # fmt: skip
        raise Fault("XL2056", problem, place.span, "order: together, or one loss")
    if not training.batch:
        raise Fault("XL2056", "which size counts the examples is not said", place.span, "batch: batch")  # fmt: skip
    for node in training.graph.inputs:
        for size in node.shape:
            names = {one.name for one in symbols(size)}
            if training.batch in names and str(size) != training.batch:
                problem = f"{param(node).name} is {node.type}, and can be cut only where an axis is the size {training.batch!r}"  # fmt: skip
                raise Fault("XL2056", problem, place.span)
