"""Numbers of the state that callers may set between steps: learning rates and the run's length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlac.training.graphs import TrainingGraphs
from xlac.training.state import LENGTH
from xlac_sdk.host.entry_calls import setting_number
from xlac_sdk.programs.entries import Setting, largest
from xlac_sdk.programs.program import Slot
from xlac_sdk.source import Diagnostic, SourceError

ENDLESS = 1 << 60  # steps: a schedule that spans as many stays as it begins, at its peak
NO_LENGTH = (
    "the learning rate depends on the length of the run, which is not set: schedules do not fall "
    "from their peak; call set_length(steps), or give the schedule its own: steps: 1000 [XL6030]"
)


@dataclass(frozen=True, slots=True)
class TrainingSetting:
    """A setting and the state tensors that it writes: each becomes `number * factor / base`,
    computed in float64, where `base` is the first factor (`xlac_sdk.programs.entries.Setting`).
    """

    factors: Mapping[str, float]

    @property
    def most(self) -> float:
        """The largest number that can be set."""
        return largest(list(self.factors.values()))

    def values(self, number: float) -> dict[str, float]:
        """The new value of each state tensor, by name."""
        base = next(iter(self.factors.values())) or 1.0
        return {name: number * factor / base for name, factor in self.factors.items()}


def settings(graphs: TrainingGraphs) -> dict[str, TrainingSetting]:
    """The settings of a training by name: `lr`, or `lr_LOSS` for each of several losses, and
    `length` (in steps) where a learning-rate schedule depends on it.
    """
    by_name = {
        f"lr_{loss}" if loss else "lr": TrainingSetting({n: rate.base for n, rate in rates.items()})
        for loss, rates in graphs.rates.items()
    }
    if any(tensor.name == LENGTH for tensor in graphs.state):
        by_name["length"] = TrainingSetting({LENGTH: 1.0})
    return by_name


def settings_of_program(graphs: TrainingGraphs, state: Mapping[str, Slot]) -> tuple[Setting, ...]:
    """The settings of a program with the training's entries; `state` has the slots of its state
    tensors by name.
    """
    return tuple(
        Setting(name, tuple((state[n], factor) for n, factor in one.factors.items()))
        for name, one in settings(graphs).items()
    )


def rate_of(
    settings: Mapping[str, TrainingSetting], losses: Sequence[str], loss: str | None, rate: float
) -> str:
    """The name of the setting that holds the learning rate of a loss (None: of the only one).
    Raises SourceError for an unknown loss, and for a `rate` that is no finite number >= 0.
    """
    if (loss is None and len(losses) > 1) or loss not in (None, *losses):
        problem = f"there is no loss {loss!r}" if loss else "each loss has a rate of its own"
        hint = f"set_rate(1e-3, loss={losses[0]!r}); there are {', '.join(losses)}"
        raise SourceError(Diagnostic("XL6051", problem, hint=hint))
    name = f"lr_{loss}" if f"lr_{loss}" in settings else "lr"
    setting_number(name, rate, settings[name].most)
    return name
