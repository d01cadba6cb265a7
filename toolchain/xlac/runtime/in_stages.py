"""A model on several targets as one callable."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from warnings import warn

from xlac.placement.automatic import AutomaticPlaces
from xlac.placement.call_order import CallOrder
from xlac.placement.executable import StagedExecutable
from xlac.placement.places import PlacementWarning, Staged
from xlac.placement.predict import predicted
from xlac.placement.stage_models import StageValues
from xlac.placement.whole_program import whole_program
from xlac.runtime.compiled import Compiled, PresentState
from xlac_sdk.host.calls.in_flight import overlaps
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.sizes import of_call

OWN = (str(Path(__file__).parents[1]), contextlib.__file__)
"""Where code is that stands between a user's call and a warning."""


class CompiledInStages(Compiled):
    """Called like `Compiled`; `stages` are the programs of its stages, in the order in which they
    run.
    """

    def __init__(
        self, program: Program, values: StageValues, stages: Sequence[Compiled], order: CallOrder
    ) -> None:
        code = StagedExecutable(program, values, stages, order)
        names = "+".join(dict.fromkeys(stage.target.name for stage in stages))
        super().__init__(program, replace(stages[0].target, name=names), code)
        self._code, self.values, self.stages = code, values, tuple(stages)

    def stage_calls(self, inputs: Mapping[str, Any]) -> list[Callable[[], None]]:
        """A call of each stage alone, with its arrays of a call of all: to measure them."""
        arrays = self._bound((), inputs)
        outputs = self._allocate(of_call(self.program, arrays))
        return self._code.stage_calls(arrays, outputs)

    def __reduce__(self) -> Any:
        """The programs of the stages, and the state. Raises UnsupportedError where one of them
        cannot be pickled.
        """
        parts = self.whole, self.values, self.stages, self._code.order
        return _unpickled, (*parts, self._present_state())


def callable_of(staged: Staged[Compiled], place: object = None) -> CompiledInStages:
    """The stages as one callable. Warns where nodes are not on the target that is preferred. Raises
    LimitError where a device has less memory than was said in `place`.
    """
    if isinstance(place, AutomaticPlaces):
        stages = zip(staged.model.stages, staged.stages, strict=True)
        place.check((stage.target, made.whole) for stage, made in stages)
    for note in staged.notes:
        warn(note, PlacementWarning, stacklevel=_depth())
    program = whole_program(staged.model, [stage.whole for stage in staged.stages])
    programs = [(s.target, s.whole, overlaps(s.executable)) for s in staged.stages]
    order = predicted(staged.model, programs, place).order
    return CompiledInStages(program, staged.model.values, staged.stages, order)


def _depth() -> int:
    """How far up the frames of the compiler's caller are."""
    depth, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(OWN):
        depth, frame = depth + 1, frame.f_back
    return depth


def _unpickled(
    program: Program,
    values: StageValues,
    stages: Sequence[Compiled],
    order: CallOrder,
    present: PresentState,
) -> CompiledInStages:
    compiled = CompiledInStages(program, values, stages, order)
    compiled._restore(present)
    return compiled
