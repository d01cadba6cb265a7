"""A compiled model as Python calls it: arrays are checked, by name, then handed to the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac.arrays import as_array
from xlac.results import Results
from xlac_sdk.backend import Array, Executable
from xlac_sdk.dims import Shape
from xlac_sdk.program import Program, Slot
from xlac_sdk.sizes import of_call
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from pathlib import Path


class Compiled:
    """A model compiled for one target, and one set of sizes or all within their bounds.

    Call it with arrays in the order of the model's inputs or by name; one output is returned as an array,
    several as a dict by name. Anything with DLPack or `__array__` is taken; a dtype or shape that differs
    raises SourceError naming the input. Of an output whose sizes data decides, a call gives what is real, while
    `run` fills all the room there is, and the outputs that hold the sizes.
    """

    def __init__(self, program: Program, target: Target, executable: Executable, artifact: Path | None = None) -> None:
        self.artifact = artifact  # in the cache, where the code came from or went to
        self.program, self.target, self.executable = program, target, executable
        self._names = tuple(slot.name for slot in program.inputs)
        self._fast = getattr(executable, "fast", None)
        self._into = getattr(executable, "into", None)
        remember = getattr(executable, "remember", None)
        if remember is not None:  # what it finds out about this machine is there for the next process
            from xlac.findings import CachedFindings

            remember(CachedFindings(target.name))
        self._outputs = tuple(slot.name for slot in program.outputs)
        self._shaped = Results.of(self._outputs, program.facts)
        self._results = self._outputs if self._shaped is None else self._shaped.names
        self._single = len(self._results) == 1

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        if self._fast is not None:  # it reads names itself, and leaves all that is unusual to what follows
            found = self._fast(*arrays, **named)
            if found is not NotImplemented and self._shaped is None:
                return found if self._single else dict(zip(self._results, found, strict=True))
            if found is not NotImplemented:
                return self._given(dict(zip(self._outputs, found if len(self._outputs) > 1 else (found,), strict=True)))
        inputs = self._bound(arrays, named)
        results = self._allocate(of_call(self.program, inputs))
        self._run(inputs, results)
        self._fast = getattr(self.executable, "fast", None)  # it may be made when calls show that it pays
        return self._given(results)

    def _given(self, arrays: dict[str, Array]) -> Any:
        """What a call returns, of all outputs by name."""
        results = arrays if self._shaped is None else self._shaped(arrays)
        return next(iter(results.values())) if self._single else results

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        """Computes into arrays that the caller owns; allocates nothing when inputs need no conversion.

        Every array of `out` must be C-contiguous, aligned, writable, of the exact dtype and shape, and may not
        overlap an input. A backend may take arrays of its own kind too: cuda takes those on a GPU.
        """
        if self._into is not None and self._into(inputs, out):
            return
        arrays = self._bound((), inputs)
        sizes = of_call(self.program, arrays)
        for slot in self.program.outputs:
            if slot.name not in out:
                raise _wrong("XL6004", f"output '{slot.name}' is missing from `out`")
            _check_output(slot, out[slot.name], arrays, sizes)
        _unknown("output", out, [s.name for s in self.program.outputs])
        self._run(arrays, out)

    def reset(self) -> None:
        """Sets the model's state to zero, where it began; does nothing for a model without any."""
        if self.program.state_bytes:
            self.executable.reset()

    @property
    def at(self) -> Callable[[Sequence[int]], None] | None:
        """Runs on memory by address: of inputs, then outputs, in the program's order, then its sizes. Nothing is checked.

        For callers that know their arrays to be right, call after call; None where the backend has no such way.
        """
        found: Callable[[Sequence[int]], None] | None = getattr(self.executable, "at", None)
        return found

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._names

    @property
    def outputs(self) -> tuple[str, ...]:
        """What a call gives, by name."""
        return self._results

    def _run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self.executable.run(inputs, outputs)

    def _allocate(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        return {s.name: np.empty(_whole(s, sizes), s.dtype.numpy) for s in self.program.outputs}

    def _named(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Every input by name, or SourceError for one missing, unknown or given twice."""
        if len(arrays) > len(self._names):
            expected = ", ".join(self._names) or "none"
            raise _wrong("XL6001", f"{len(arrays)} inputs given, but the model takes {len(self._names)}: {expected}")
        given = dict(zip(self._names, arrays, strict=False))
        twice = [name for name in named if name in given]
        if twice:
            raise _wrong("XL6001", f"input '{twice[0]}' is given twice, by position and by name")
        given.update(named)
        _unknown("input", given, list(self._names))
        missing = [name for name in self._names if name not in given]
        if missing:
            raise _wrong("XL6001", f"input '{missing[0]}' is missing")
        return given

    def _bound(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Array]:
        given = self._named(arrays, named)
        return {slot.name: as_input(slot, given[slot.name]) for slot in self.program.inputs}


def as_input(slot: Slot, value: Any) -> Array:
    """An array that a backend may read for `slot`: converted from DLPack or `__array__`, made contiguous.

    Python numbers and lists take the input's dtype; arrays must have it already.
    """
    array = as_array(value, slot.dtype)
    if array.dtype != slot.dtype.numpy:
        home = "np" if slot.dtype.numpy.isbuiltin == 1 else "ml_dtypes"
        hint = f"convert it: x.astype({home}.{slot.dtype.numpy.name})"
        raise _wrong("XL6002", f"input '{slot.name}' must be {slot.dtype}, not {array.dtype}", hint)
    if not _fits(array.shape, slot.shape):
        raise _wrong("XL6003", f"input '{slot.name}' must have shape {_shape(slot.shape)}, not {_shape(array.shape)}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C")
    return array


def _check_output(slot: Slot, array: Any, inputs: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
    name, shape = slot.name, _whole(slot, sizes)
    if not isinstance(array, np.ndarray):
        raise _wrong("XL6004", f"output '{name}' must be a NumPy array, not {type(array).__name__}")
    if array.dtype != slot.dtype.numpy:
        raise _wrong("XL6002", f"output '{name}' must be {slot.dtype}, not {array.dtype}")
    if array.shape != shape:
        raise _wrong("XL6003", f"output '{name}' must have shape {_shape(shape)}, not {_shape(array.shape)}")
    if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
        raise _wrong("XL6004", f"output '{name}' must be C-contiguous, aligned and writable")
    overlapping = next((n for n, a in inputs.items() if np.may_share_memory(a, array)), None)
    if overlapping is not None:
        raise _wrong("XL6004", f"output '{name}' shares memory with input '{overlapping}'")


def _unknown(kind: str, given: Mapping[str, Any], known: list[str]) -> None:
    from difflib import get_close_matches

    for name in given:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"the model has: {', '.join(known)}"
            raise _wrong("XL6001", f"unknown {kind} '{name}'", hint)


def _whole(slot: Slot, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an output for the sizes of a call, which may be too small for it."""
    shape = slot.extents(sizes)
    if min(shape, default=0) < 0:
        values = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise _wrong("XL6003", f"output '{slot.name}' has no shape with {values}: {_shape(shape)}")
    return shape


def _fits(given: tuple[int, ...], wanted: Shape) -> bool:
    """Whether ranks and fixed extents agree; open ones are looked at together, by `of_call`."""
    return len(given) == len(wanted) and all(n == m or not isinstance(m, int) for n, m in zip(given, wanted, strict=True))


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _wrong(code: str, message: str, hint: str = "") -> SourceError:
    return SourceError(Diagnostic(code, message, hint=hint))
