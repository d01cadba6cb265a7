"""Gradient accumulation: the sums of a step's micro-batches, kept in the state between their calls.

The gradient of a micro-batch times how many numbers its loss is the mean of is added to a sum, and
the step divides it by how many there were in all: as one batch of all examples would have it.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.dims import Dim, symbols
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spec.report import Fault
from xlac.spec.training.objective import Objective
from xlac.spec.training.section import Training
from xlac.training.state import TrainingState
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

NUMBER = "accumulate.number"  # micro-batches of the present step that came before
APART = 40  # bits: what is drawn counts steps below, and micro-batches above


class Accumulation:
    """The sums of micro-batches, as state: gradients, and what they are the means of, by loss;
    what operations measured. Raises Fault for a section that has no sums.
    """

    def __init__(self, state: TrainingState, training: Training, measured: list[str]) -> None:
        _check(training)
        self.number = state.passing(NUMBER, Type(DType.I64))
        self.first = build.compare(self.number, "eq", 0)
        self.losses: dict[str, Node] = {}
        self.counts: dict[str, Node] = {}
        self.gradients: dict[str, Node] = {}
        for objective in training.objectives:
            end = f".{objective.name}" if objective.name else ""
            wide = Type(state.wide)
            self.losses[objective.name] = state.passing(f"accumulate.loss{end}", wide)
            self.counts[objective.name] = state.passing(f"accumulate.count{end}", wide)
            for name in objective.learns:
                type = training.weights[name].type
                wide = type.with_dtype(type.dtype.compute)
                self.gradients[name] = state.passing(f"accumulate.gradient.{name}", wide)
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
        self, objective: Objective, loss: Node, gradients: Mapping[str, Node], count: Node | None
    ) -> tuple[Node, dict[str, Node]]:
        """The loss and the gradients of all micro-batches up to this one: the means of as many
        numbers as they have in all. `count` is how many this one has, where the data decide it.
        """
        kept, name = self.kept, objective.name
        wide = kept.counts[name].type.dtype
        number = _number(objective.loss.count, wide) if count is None else build.cast(count, wide)
        total = self._sum(kept.counts[name], number)
        value = self._sum(kept.losses[name], _weighed(build.cast(loss, wide), number, count))
        found: dict[str, Node] = {}
        for weight, gradient in gradients.items():
            compute = gradient.type.dtype.compute
            part = _weighed(build.cast(gradient, compute), build.cast(number, compute), count)
            added = self._sum(kept.gradients[weight], part)
            found[weight] = build.cast(build.div(added, build.cast(total, compute)), gradient.type.dtype)  # fmt: skip
        return build.cast(build.div(value, total), loss.type.dtype), found

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


def _number(count: Dim | Node, dtype: DType) -> Node:
    """A size as a scalar."""
    assert not isinstance(count, Node)
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
