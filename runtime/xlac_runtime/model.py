"""A loaded artefact as Python calls it: its manifest is checked, and it is opened by the SDK, or by
the backend of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xlac_sdk.backend import Executable
from xlac_sdk.dtypes import Array
from xlac_sdk.host.call_binding import Parameters, as_inputs, by_name, check_outputs, output_shape
from xlac_sdk.host.capi.opened import opened
from xlac_sdk.host.entry_calls import ProgramState, entry_calls
from xlac_sdk.host.manifest import Manifest, read
from xlac_sdk.host.package import Artefact
from xlac_sdk.host.state_sizes import StateSizes
from xlac_sdk.programs.results import Results
from xlac_sdk.programs.signature import shown, sizes_of, text_of
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import Diagnostic, UnsupportedError

NATIVE = ("cpu", "c")  # targets whose artefacts are shared libraries with the C API


class Model:
    """A loaded artefact; `manifest` describes it.

    Call it with arrays in the order of the model's inputs or by name; one output is returned as an
    array, several as a dict by name, cut to its valid part where its sizes depend on data. A dtype
    or shape that differs raises SourceError naming the input. Thread-safe.

    Of a model that learns, `entries` are its other functions (`entries["step"](image=x, label=y)`),
    and `state` is what they share: weights and the optimizer's state, by name.
    """

    def __init__(self, folder: Path, manifest: Manifest, copy_weights: bool = False) -> None:
        self.manifest = manifest
        artefact = manifest.alone(folder, copy_weights)
        self._program = artefact.program
        _check_types(artefact)
        self._executable = _opened(artefact, manifest.target)
        self.inputs = tuple(slot.name for slot in self._program.inputs)
        names = tuple(slot.name for slot in self._program.outputs)
        self._shaped = Results.of(names, self._program.facts)
        self.outputs = names if self._shaped is None else self._shaped.names
        self._parameters = Parameters(self.inputs)
        self._sizes = StateSizes(self._program)
        self.entries = entry_calls(self._program, self._executable)
        self.state = ProgramState(self._program, self._executable)

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        given = as_inputs(self._program.inputs, by_name(self._parameters, arrays, named))
        sizes = of_call(self._program, given)
        results = {
            s.name: np.empty(output_shape(s, sizes), s.dtype.numpy) for s in self._program.outputs
        }
        self._sizes.check(sizes)
        self._executable.run(given, results)
        shaped = results if self._shaped is None else self._shaped(results)
        return shaped if len(shaped) > 1 else shaped[self.outputs[0]]

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        """Computes into arrays that the caller owns, each C-contiguous, writable, and of the exact
        dtype and shape.
        """
        given = as_inputs(self._program.inputs, by_name(self._parameters, (), inputs))
        sizes = of_call(self._program, given)
        check_outputs(self._program.outputs, out, given, sizes)
        self._sizes.check(sizes)
        self._executable.run(given, out)

    def reset(self) -> None:
        """Resets the model's state to its initial contents: zero, or the initial weights of a model
        that learns. Does nothing for a model without state.
        """
        if self._program.state_bytes:
            self._executable.reset()
            self._sizes.reset()

    def __repr__(self) -> str:
        extents = {} if self._shaped is None else self._shaped.extents
        given = {s.name: text_of(s.dtype, s.shape) for s in self._program.inputs}
        every = {
            s.name: text_of(s.dtype, s.shape, extents.get(s.name, ()))
            for s in self._program.outputs
        }
        results = {name: every.get(name, "") for name in self.outputs}
        sizes = sizes_of(s.shape for s in self._program.inputs)
        return shown("Model", self.manifest.name, given, results, self.manifest.target, sizes)


def load(folder: str | Path, *, copy_weights: bool = False) -> Model:
    """The artefact in a folder, callable. With `copy_weights` a weights file is read into memory
    instead of mapped.

    Raises SourceError for a folder that is not an artefact or whose files were changed, and
    UnsupportedError for one that cannot run here.
    """
    place = Path(folder)
    return Model(place, read(place), copy_weights)


def _opened(artefact: Artefact, target: str) -> Executable:
    if target.partition(":")[0] in NATIVE:
        return opened(artefact)
    from xlac_sdk.host.registry import find

    return find(target).open(artefact)


def _check_types(artefact: Artefact) -> None:
    """Raises UnsupportedError for an element type that NumPy lacks, unless a package that has it is
    installed.
    """
    for slot in (*artefact.program.inputs, *artefact.program.outputs):
        try:
            slot.dtype.numpy  # noqa: B018
        except ModuleNotFoundError as error:
            problem = (
                f"'{slot.name}' is {slot.dtype}, which NumPy lacks, and {error.name} is not "
                "installed"
            )
            raise UnsupportedError(
                Diagnostic("XL5004", problem, hint="pip install 'xlac-runtime[bf16]'")
            ) from None
