"""The interface of a loaded program with entries, besides calls of the model: calls of its entries,
its state by tensor, and numbers that callers set there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from xlac_sdk.backend import Entered, Executable
from xlac_sdk.dtypes import Array
from xlac_sdk.host.array_values import as_array
from xlac_sdk.host.call_binding import (
    Parameters,
    as_inputs,
    by_name,
    other_shape,
    other_type,
    output_shape,
    unknown,
)
from xlac_sdk.programs.entries import LARGEST, Entry, Setting, of_entry, tensors
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.programs.signature import shown, text_of
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.counts import number_of


class EntryCall:
    """One entry of a loaded program, called like the model: arrays by position or by name. Results
    are a dict by name, with scalars as NumPy numbers.
    """

    def __init__(self, program: Program, entry: Entry, executable: Entered) -> None:
        self.name, self.program, self._executable = entry.name, of_entry(program, entry), executable
        self.inputs = tuple(slot.name for slot in entry.inputs)
        self.outputs = tuple(slot.name for slot in entry.outputs)
        self._parameters = Parameters(self.inputs)

    def __call__(self, /, *arrays: Any, **named: Any) -> dict[str, Any]:
        slots = self.program.inputs
        given = as_inputs(slots, by_name(self._parameters, arrays, named))
        sizes = of_call(self.program, given)
        results = {
            s.name: np.empty(output_shape(s, sizes), s.dtype.numpy) for s in self.program.outputs
        }
        self._executable.enter(self.name, given, results)
        return {name: array if array.shape else array[()] for name, array in results.items()}

    def __repr__(self) -> str:
        given, results = (
            {s.name: text_of(s.dtype, s.shape) for s in slots}
            for slots in (self.program.inputs, self.program.outputs)
        )
        return shown("Entry", self.name, given, results)


class ProgramState:
    """The state of a loaded program by tensor, as NumPy arrays: copies, read and written between
    calls.
    """

    def __init__(self, program: Program, executable: Executable) -> None:
        self._executable = executable
        self._slots: dict[str, Slot] = {slot.name: slot for slot in tensors(program)}
        settings = program.entries.settings if program.entries is not None else ()
        self._settings: dict[str, Setting] = {setting.name: setting for setting in settings}

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors: weights, optimizer state, counters."""
        return tuple(self._slots)

    @property
    def settings(self) -> tuple[str, ...]:
        """The numbers that `set_number` sets."""
        return tuple(self._settings)

    def __getitem__(self, name: str) -> Array:
        """A copy of a tensor. Raises SourceError for an unknown name."""
        slot = self._slot(name)
        block = self._executable.read_state(slot.offset, slot.offset + slot.nbytes)
        return block.view(slot.dtype.numpy).reshape(slot.extents({}))

    def __setitem__(self, name: str, value: Any) -> None:
        """Writes a tensor. Raises SourceError for another element type or shape."""
        slot, array = self._slot(name), self._fitting(name, value)
        self._executable.write_state(array.reshape(-1).view(np.uint8), slot.offset)

    def copy(self) -> dict[str, Array]:
        """Copies of all tensors: a checkpoint."""
        return {name: self[name] for name in self._slots}

    def update(self, arrays: Mapping[str, Any]) -> None:
        """Writes several tensors; none where one does not fit."""
        for name, array in {n: self._fitting(n, value) for n, value in arrays.items()}.items():
            self[name] = array

    def set_number(self, name: str, value: float) -> None:
        """Sets a number that calls depend on, such as the learning rate. Raises SourceError unless
        it is a number of at least 0 that f32 can represent.
        """
        if name not in self._settings:
            raise unknown("setting", name, tuple(self._settings))
        setting = self._settings[name]
        number = setting_number(name, value, setting.most)
        for slot, factor in setting.slots:
            self[slot.name] = np.asarray(number * factor / setting.base, slot.dtype.numpy)

    def _fitting(self, name: str, value: Any) -> Array:
        """A value as a dense array of a tensor's type."""
        slot = self._slot(name)
        array = as_array(value, slot.dtype, name)
        if array.dtype != slot.dtype.numpy:
            raise other_type("tensor", name, slot.dtype, array.dtype)
        if array.shape != slot.extents({}):
            raise other_shape("tensor", name, slot.shape, array.shape)
        return np.ascontiguousarray(array).reshape(array.shape)

    def _slot(self, name: str) -> Slot:
        if name not in self._slots:
            raise unknown("tensor", name, tuple(self._slots))
        return self._slots[name]

    def __repr__(self) -> str:
        return f"<ProgramState of {number_of(len(self._slots), 'tensor')}>"


def entry_calls(program: Program, executable: Executable) -> dict[str, EntryCall]:
    """The entries of a loaded program, by name; empty for a program without any."""
    if program.entries is None:
        return {}
    enters, entries = cast(Entered, executable), program.entries.entries
    return {entry.name: EntryCall(program, entry, enters) for entry in entries}


def asked(entries: Mapping[str, EntryCall], name: str) -> EntryCall:
    """An entry by name. Raises SourceError for an unknown one."""
    if name not in entries:
        raise unknown("entry", name, ("run", *entries))
    return entries[name]


def setting_number(name: str, value: Any, most: float = LARGEST) -> float:
    """The value of a setting: a rate, or the number of steps of a run. Raises SourceError for NaN,
    negative values and values above `most`.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not 0 <= number <= most:
        bound = f" and at most {most:.9g}" if number > most else ""
        problem = f"'{name}' is a number of at least 0{bound}, found {value!r}"
        raise SourceError(Diagnostic("XL6051", problem))
    return number


def not_finite() -> SourceError:
    """The error for a step whose loss, gradients or running statistics are not finite."""
    what = "the loss, gradients or running statistics"
    problem = f"{what} are not finite; nothing was learned from this batch"
    hint = "a smaller rate, or look for NaN in the data; the state is as before the step"
    return SourceError(Diagnostic("XL6031", problem, hint=hint))


def no_length() -> SourceError:
    """The error for a step that needs the number of steps of the run, which is not set."""
    problem = "the learning rate depends on the length of the run, which is not set"
    hint = (
        'set it (state.set_number("length", 1000), --number length=1000), or give the schedule '
        "its own: steps: 1000"
    )
    return SourceError(Diagnostic("XL6030", problem, hint=hint))
