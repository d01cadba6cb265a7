"""The models of training, and the numbers that they report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac.ir.dims import Dim, evaluate
from xlac.ir.graph import Node
from xlac.model import Model
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.rates import Rate
from xlac.training.averages import no_averages
from xlac.training.micro_batches.accumulate import ACCUMULATE, no_micro_batches
from xlac.training.state import StateTensor


@dataclass(frozen=True, eq=False)
class Metric:
    """A mean that a step and an evaluation return as the output `name`. `count` is the number of
    elements that it averages over: a size, or the name of the output that holds it. With `parts`
    it is their sum, and they have the counts.
    """

    name: str
    count: Dim | str
    parts: tuple[Metric, ...] = ()

    @staticmethod
    def of(name: str, mean: BatchMean) -> Metric:
        """The metric of a mean of the spec."""
        parts = (Metric.of(f"{name}.{n}", part) for n, part in enumerate(mean.parts, 1))
        number = f"{name}.count" if isinstance(mean.count, Node) else mean.count
        return Metric(name, number, tuple(parts))

    def sums(self, outputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[float, ...]:
        """(sum, count) from a call's outputs and sizes; a pair for each part, if it has parts."""
        if self.parts:
            return tuple(n for part in self.parts for n in part.sums(outputs, sizes))
        count = outputs[self.count] if isinstance(self.count, str) else evaluate(self.count, sizes)
        mean, number = float(outputs[self.name]), float(count)
        return (mean * number if number else 0.0, number)


@dataclass(frozen=True, eq=False)
class TrainingGraphs:
    """The models of training. Of several micro-batches `step` takes the last one and `accumulate`
    those before it: one entry for each pass over them, of which losses that learn in turn have one.
    """

    step: Model
    accumulate: Mapping[str, Model]
    evaluate: Model
    run: Model
    averaged: Mapping[str, Model]  # evaluation and model with averaged weights, by entry
    state: tuple[StateTensor, ...]
    metrics: tuple[Metric, ...]  # losses first
    losses: tuple[str, ...]  # the metrics that are minimised
    # by loss ("" if there is one), then by the state tensor that holds the base rate
    rates: Mapping[str, Mapping[str, Rate]]
    micro_batches: int = 1  # of a step
    shard: str | None = None  # what ranks along `data` hold in parts
    # by kind of call (step, evaluate, run): the tensors of what the model itself carries
    carried: Mapping[str, tuple[StateTensor, ...]] = field(default_factory=dict)

    @property
    def entries(self) -> dict[str, Model]:
        """The models that exist, by entry name."""
        return {
            "step": self.step,
            "evaluate": self.evaluate,
            "run": self.run,
            **self.averaged,
            **self.accumulate,
        }

    def entry(self, name: str) -> Model:
        """The model of an entry. Raises SourceError for an entry with averages where none are kept,
        and for micro-batches that a step does not have.
        """
        entries = self.entries
        if name not in entries:
            is_part = name.startswith(ACCUMULATE)
            raise no_micro_batches(self.accumulate) if is_part else no_averages()
        return entries[name]
