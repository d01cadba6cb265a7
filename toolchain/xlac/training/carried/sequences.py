"""Where a trainer's model begins a sequence: what it carries from batch to batch is as at first."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.training.carried.states import FOR_STEP
from xlac.training.shared_state import TrainingPrograms
from xlac.training.state import StateTensor
from xlac_sdk.support.choices import chosen


class Sequences:
    """`carries` and `begin_sequence` of a trainer."""

    _model: Model
    _programs: TrainingPrograms
    _carried: Mapping[str, tuple[StateTensor, ...]]

    @property
    def carries(self) -> tuple[str, ...]:
        """The states of the spec, which the model carries from batch to batch."""
        held = {tensor.name for tensor in self._carried[FOR_STEP]}
        named = [n for n in self._model.graph.inputs if param(n).name in held]
        return tuple(param(n).name for n in named if n.origin and n.origin.span)

    def begin_sequence(self, kind: str = FOR_STEP) -> None:
        """What the model carries from one `step` to the next (or from one `evaluate`, or `run`, a
        call of the model, to the next) is what it was before the first. `reset` and `restore` do so
        for evaluations and calls. Raises SourceError for another kind.
        """
        for tensor in self._carried[chosen("kind of call", kind, list(self._carried))]:
            self._programs.write(tensor.name, tensor.initial())
