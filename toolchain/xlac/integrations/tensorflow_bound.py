"""A function of TensorFlow with the values of its variables built into the program, for as long as
no variable is assigned: weights are packed once, not passed at every call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.frontends.tensorflow.lowered import LoweredTensorFlow

MOST = 4  # times that values are built in: whoever assigns more often passes them


@dataclass(frozen=True, slots=True)
class Built:
    """A program, and the values in it: tensors that are held, so that their memory is not used for
    other values, and where they are.
    """

    program: Any
    held: Sequence[Any]
    places: tuple[int, ...]


class BoundVariables:
    """The program for the values that captured tensors have now, if there is one."""

    def __init__(self, lowered: LoweredTensorFlow, options: Mapping[str, Any]) -> None:
        self._lowered, self._options = lowered, options
        self._built: Built | None = None
        self._last: tuple[int, ...] = ()
        self._times = 0

    def program(self, values: Sequence[Any]) -> Any:
        """The program in which these values (eager tensors) are built in, or None where they have
        just been assigned, or too often. It takes the function's own arguments.

        A tensor that is held is not written to: TensorFlow assigns a variable to other memory then.
        So the same places mean the same values.
        """
        places = tuple([_place(value) for value in values])
        built = self._built
        if built is not None and built.places == places:
            return built.program
        known, self._last = self._last, places
        # built at the first call, and then where a second call finds the same values
        if self._times >= MOST or (self._times and known != places):
            return None
        self._times += 1
        weights = dict(zip(self._lowered.names, (np.asarray(v) for v in values), strict=True))
        program = compile(self._lowered.model(weights), **self._options)
        self._built = Built(program, list(values), places)
        return program


def _place(value: Any) -> int:
    """Where the numbers of an eager tensor are in memory."""
    place: int = np.asarray(value).__array_interface__["data"][0]
    return place
