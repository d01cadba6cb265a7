"""What the loop asks of whatever learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import add
from pathlib import Path
from typing import Any, Protocol

from xlac.ir.types import Type
from xlac.training.data.column import IndexRange
from xlac_sdk.dtypes import Array
from xlac_sdk.source import Diagnostic, SourceError

Sums = Mapping[str, tuple[float, ...]]
"""Metric -> (sum, count): a mean is sum / count, so that batches of any size weigh alike. A metric
that is the sum of several means has such a pair for each.
"""


Evaluation = Callable[[Mapping[str, Any]], Sums]
"""Gives the numbers of a batch in inference mode."""


class AveragedSteps(Protocol):
    """A model with averages of its weights in their place."""

    @property
    def run_evaluate(self) -> Evaluation:
        """The numbers of a batch in inference mode."""

    def save_weights(self, path: Path) -> None:
        """Writes the averages as the weights, as safetensors."""


class TrainingSteps(Protocol):
    """A model and its optimizer: `xlac.trainer` makes one of a spec."""

    @property
    def inputs(self) -> Mapping[str, Type]:
        """The types of what a step takes, by name; the size named `batch` is open in them."""

    @property
    def batch(self) -> str:
        """The name of the size that counts the rows of a batch; "" where there is none."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What a step reports: what is minimised, then the others."""

    @property
    def losses(self) -> tuple[str, ...]:
        """The metrics that are minimised: "loss", or several."""

    @property
    def fingerprint(self) -> str:
        """What tells the model and how it is trained from others."""

    @property
    def steps_done(self) -> int:
        """How many steps were taken."""

    @property
    def averages(self) -> bool:
        """Whether averages of the weights are kept, which `ema` has."""

    @property
    def ema(self) -> AveragedSteps:
        """The model with averages in the place of its weights."""

    def run_step(self, arrays: Mapping[str, Any]) -> Sums:
        """Learns from a batch."""

    def run_evaluate(self, arrays: Mapping[str, Any]) -> Sums:
        """The same numbers in inference mode; nothing is learned."""

    def state(self) -> dict[str, Array]:
        """Copies of everything that a step reads and writes, by name."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Takes such a state. Raises SourceError for names and shapes that do not fit."""

    def set_length(self, steps: int) -> None:
        """Says how many steps the whole run takes."""

    @property
    def parts(self) -> Mapping[str, Callable[[Path], None]]:
        """Writes what the weights are merged of, by the name of the file; nothing, mostly."""

    def save_weights(self, path: Path) -> None:
        """Writes the weights, as the model's spec reads them, as safetensors."""


def means(sums: Sums) -> dict[str, float]:
    """The mean of each metric; NaN where nothing was counted."""
    return {name: mean(numbers) for name, numbers in sums.items()}


def mean(numbers: Sequence[float]) -> float:
    """The mean of pairs of sum and count; NaN where nothing was counted."""
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    found = [total / count for total, count in pairs if count]
    return sum(found) if found else float("nan")


def added(first: Sums, second: Sums) -> dict[str, tuple[float, ...]]:
    """The sums of two batches."""
    if not first:
        return dict(second)
    return {n: tuple(map(add, first[n], second[n])) for n in second}


def is_finite(numbers: Sequence[float]) -> bool:
    """Whether all sums of a metric are."""
    return all(map(math.isfinite, numbers))


def finite_only(sums: Sums) -> dict[str, tuple[float, ...]]:
    """Sums and counts of what is finite; of all else nothing was counted."""
    return {n: one if is_finite(one) else (0.0,) * len(one) for n, one in sums.items()}


def ranges(steps: TrainingSteps) -> dict[str, IndexRange]:
    """The numbers that inputs may hold, where the spec says them."""
    return dict(getattr(steps, "ranges", {}))


def failed_step(error: SourceError, step: int, epoch: int, last: Path | None) -> SourceError:
    """What a step raised, and where the run was: after so many steps and whole epochs, with the
    `last` checkpoint.
    """
    problem = f"step {step + 1} (epoch {epoch + 1}) failed"
    kept = f"{last} is from before" if last else ""
    return SourceError(*error.diagnostics, Diagnostic("XL6338", problem, hint=kept))
