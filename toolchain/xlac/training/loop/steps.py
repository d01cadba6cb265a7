"""The interface between the training loop and a model with its optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import add
from pathlib import Path
from typing import Any, Protocol

from xlac.ir.types import Type
from xlac.training.data.column import IndexRange
from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.communicator import Communicator
from xlac_sdk.source import Diagnostic, SourceError

Sums = Mapping[str, tuple[float, ...]]
"""Metric -> (sum, count). The mean over several batches is total sum / total count. A metric that
is a sum of several means has a pair for each.
"""

Totals = dict[str, tuple[float, ...]]
"""The same, to be added to."""

Evaluation = Callable[[Mapping[str, Any]], Sums]
"""Evaluates a batch (arrays by input) in inference mode."""


class AveragedSteps(Protocol):
    """A model with averaged weights."""

    @property
    def run_evaluate(self) -> Evaluation:
        """Evaluates a batch in inference mode."""

    def save_weights(self, path: Path) -> None:
        """Writes the averaged weights as safetensors. Raises OSError."""


class TrainingSteps(Protocol):
    """A model and its optimizer: `xlac.trainer` makes one from a spec."""

    @property
    def inputs(self) -> Mapping[str, Type]:
        """The types of a step's inputs by name; the size `batch` is open in them."""

    @property
    def batch(self) -> str:
        """The name of the open size that is the number of rows of a batch; "" if there is none."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the numbers that a step reports: losses, then the others."""

    @property
    def losses(self) -> tuple[str, ...]:
        """The metrics that are minimised: "loss", or several."""

    @property
    def step_metrics(self) -> tuple[str, ...]:
        """Names of numbers that training steps report and evaluations do not: the loss scale."""

    @property
    def ranges(self) -> Mapping[str, IndexRange]:
        """The valid numbers of integer inputs, by input, where the model decides them."""

    @property
    def accumulate(self) -> int:
        """The number of micro-batches that a step may divide its batch into."""

    @property
    def needs_length(self) -> bool:
        """Whether the learning rate depends on the length of the run, which is not set yet."""

    @property
    def ranks(self) -> Communicator | None:
        """The processes that train together, of which this is one; None where it is alone."""

    @property
    def fingerprint(self) -> str:
        """A hash of the model and of how it is trained."""

    @property
    def steps_done(self) -> int:
        """The number of steps done."""

    @property
    def averages(self) -> bool:
        """Whether averages of the weights are kept, so that there is `ema`."""

    @property
    def ema(self) -> AveragedSteps:
        """The model with averaged weights."""

    @property
    def carries(self) -> tuple[str, ...]:
        """The states that the model carries from batch to batch, which `begin_sequence` resets."""

    def begin_sequence(self, kind: str) -> None:
        """Begins a pass over data, of kind "step" or "evaluate": nothing is carried into it."""

    def run_step(self, arrays: Mapping[str, Any]) -> Sums:
        """Updates the weights from a batch (arrays by input). Raises SourceError."""

    def run_evaluate(self, arrays: Mapping[str, Any]) -> Sums:
        """The same numbers in inference mode; the state does not change."""

    def state(self) -> dict[str, Array]:
        """Copies of the training state by name: weights, optimizer state, counters."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Sets such a state. Raises SourceError where names, dtypes or shapes differ."""

    def set_length(self, steps: int) -> None:
        """Sets the number of steps of the whole run, for learning-rate schedules."""

    @property
    def parts(self) -> Mapping[str, Callable[[Path], None]]:
        """Writers of files of LoRA factors by file name; empty for most models."""

    def save_weights(self, path: Path) -> None:
        """Writes the weights as safetensors, under the names of the spec. Raises OSError."""


def means(sums: Sums) -> dict[str, float]:
    """The mean of each metric; NaN where all counts are 0."""
    return {name: mean(numbers) for name, numbers in sums.items()}


def mean(numbers: Sequence[float]) -> float:
    """The sum of the means of (sum, count) pairs with a count; NaN where all counts are 0."""
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    means = [total / count for total, count in pairs if count]
    return sum(means) if means else float("nan")


def begin_length(steps: TrainingSteps, length: int | None) -> None:
    """Sets the number of steps of a run, where it is known. Raises SourceError where it is not, and
    the learning rate depends on it.
    """
    if length is not None:
        steps.set_length(length)
    elif steps.needs_length:
        problem = "the learning rate depends on the length of the run, and the data have none"
        hint = "--max-steps N, or give the schedule its own: steps: 1000"
        raise SourceError(Diagnostic("XL6030", problem, hint=hint))


def added(first: Sums, second: Sums) -> dict[str, tuple[float, ...]]:
    """Sums and counts of two sets of batches, added; each may lack metrics of the other."""
    both = {n: tuple(map(add, first[n], second[n])) for n in second if n in first}
    return {**first, **second, **both}


def is_finite(numbers: Sequence[float]) -> bool:
    """Whether all numbers of a metric are finite."""
    return all(map(math.isfinite, numbers))


def finite_only(sums: Sums) -> dict[str, tuple[float, ...]]:
    """Sums and counts, those of non-finite metrics replaced by 0."""
    return {n: one if is_finite(one) else (0.0,) * len(one) for n, one in sums.items()}


def out_of_order(carried: Sequence[str]) -> str:
    """What to say of batches drawn in random order, where a model carries states through them."""
    what = ", ".join(carried)
    return f"note: the model carries {what} from batch to batch, and --no-shuffle is not given"


def loss_not_finite(
    name: str, numbers: Sequence[float], step: int, epoch: int, last: Path | None
) -> SourceError:
    """The error of a loss (its sums and counts) that is not finite, with the position in the run as
    `failed_step` has it.
    """
    what = "the loss" if name == "loss" else f"the loss {name!r}"
    problem = f"{what} of step {step + 1} (epoch {epoch + 1}) is {mean(numbers)}"
    kept = f"{last} is from before: " if last else ""
    hint = f"{kept}a smaller learning rate, clip, or data without extremes"
    return SourceError(Diagnostic("XL6338", problem, hint=hint))


def failed_step(error: SourceError, step: int, epoch: int, last: Path | None) -> SourceError:
    """The error of a step with the position in the run added: `step` steps and `epoch` whole epochs
    were done before; `last` is the newest checkpoint.
    """
    problem = f"step {step + 1} (epoch {epoch + 1}) failed"
    kept = f"{last} is from before" if last else ""
    return SourceError(*error.diagnostics, Diagnostic("XL6338", problem, hint=kept))
