"""A compiled model as a Python callable: arrays are checked by name, then handed to the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac.support.failures import FACT, Watched, public
from xlac_sdk.backend import Executable
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.host.call_binding import Parameters, as_inputs, by_name, check_outputs, output_shape
from xlac_sdk.host.state_sizes import StateSizes
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.results import Results
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from pathlib import Path

PresentState = tuple[bytes, Mapping[str, int]]
"""The bytes of a model's state, and its open sizes."""


class Compiled:
    """A model compiled for one target, and one set of sizes or all within their bounds.

    Call it with arrays in the order of the model's inputs or by name; one output is returned as an
    array, several as a dict by name. Anything with DLPack or `__array__` is taken; a dtype or shape
    that differs raises SourceError naming the input. Where an output's sizes depend on data, a call
    returns the valid part alone, while `run` fills buffers of the largest sizes, and the outputs
    that hold the actual sizes.
    """

    def __init__(
        self,
        program: Program,
        target: Target,
        executable: Executable,
        artifact: Path | str | None = None,
    ) -> None:
        self.artifact = artifact  # where the cache has the code; None without a cache
        self.whole = program  # with the record of a checked program, which callers do not see
        if program.facts.get(FACT):
            executable, program = Watched(executable, program), public(program)
        self.program, self.target, self.executable = program, target, executable
        self._names = tuple(slot.name for slot in program.inputs)
        self._parameters = Parameters(self._names)
        self._sizes = StateSizes(program)
        self._fast = getattr(executable, "fast", None)
        self._into = getattr(executable, "into", None)
        remember = getattr(executable, "remember", None)
        # what it measures on this machine is kept for the next process
        if remember is not None:
            from xlac.cache.findings import CachedFindings

            remember(CachedFindings(target.name))
        self._outputs = tuple(slot.name for slot in program.outputs)
        self._shaped = Results.of(self._outputs, program.facts)
        self._results = self._outputs if self._shaped is None else self._shaped.names
        self._single = len(self._results) == 1

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        # the fast path binds names itself, and returns nothing for unusual arguments
        if self._fast is not None:
            returned = self._fast(*arrays, **named)
            if returned is not NotImplemented and self._shaped is None:
                return returned if self._single else dict(zip(self._results, returned, strict=True))
            if returned is not NotImplemented:
                return self._given(
                    dict(
                        zip(
                            self._outputs,
                            returned if len(self._outputs) > 1 else (returned,),
                            strict=True,
                        )
                    )
                )
        inputs = self._bound(arrays, named)
        sizes = of_call(self.program, inputs)
        results = self._allocate(sizes)
        self._run(inputs, results, sizes)
        # not yet available: it is made after enough calls
        self._fast = getattr(self.executable, "fast", None)
        return self._given(results)

    def _given(self, arrays: dict[str, Array]) -> Any:
        """The return value of a call, from all outputs by name."""
        results = arrays if self._shaped is None else self._shaped(arrays)
        return next(iter(results.values())) if self._single else results

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        """Computes into arrays that the caller owns; allocates nothing when inputs need no
        conversion.

        Every array of `out` must be C-contiguous, aligned, writable, of the exact dtype and shape,
        and may not overlap an input or another output. A backend may take arrays of its own kind
        too: those in the memory of its device.
        """
        if self._into is not None:
            stopping.check()
            if self._into(inputs, out):
                return
        arrays = self._bound((), inputs)
        sizes = of_call(self.program, arrays)
        check_outputs(self.program.outputs, out, arrays, sizes)
        self._run(arrays, out, sizes)
        # not yet available, like `fast`
        self._into = getattr(self.executable, "into", None)

    def reset(self) -> None:
        """Sets the model's state to zero; does nothing for a model without state."""
        if self.program.state_bytes:
            self.executable.reset()
            self._sizes.reset()

    @property
    def at(self) -> Callable[[Sequence[int]], None] | None:
        """Runs on addresses: those of inputs, then of outputs, in the program's order, then its
        sizes. Nothing is checked.

        For callers that have verified their arrays and call repeatedly; None where the backend has
        no such call.
        """
        function: Callable[[Sequence[int]], None] | None = getattr(self.executable, "at", None)
        return function

    @property
    def direct(self) -> Callable[..., Any] | None:
        """Runs on arrays by position, and gives the output, or several as a tuple; or it has done
        nothing and gives NotImplemented, where they are not exactly the arrays that the program
        takes. None where the backend has no such call, or outputs are cut to actual sizes.
        """
        return self._fast if self._shaped is None else None

    def __repr__(self) -> str:
        from xlac_sdk.programs.signature import shown, sizes_of, text_of

        extents = {} if self._shaped is None else self._shaped.extents
        outputs = {
            s.name: text_of(s.dtype, s.shape, extents.get(s.name, ())) for s in self.program.outputs
        }
        given = {s.name: text_of(s.dtype, s.shape) for s in self.program.inputs}
        sizes = sizes_of(s.shape for s in self.program.inputs)
        return shown(
            type(self).__name__,
            self.program.name,
            given,
            {n: outputs.get(n, "") for n in self._results},
            sizes,
            self.target.name,
        )

    def __reduce__(self) -> Any:
        """The code, the constants and the state, so that other processes and machines like this one
        call it without the model, and compile nothing. Raises UnsupportedError for a program that
        runs in this process alone, and where its code is gone from the cache.
        """
        from pathlib import Path

        from xlac.cache.pickled import files_of

        artifact = None if self.artifact is None else Path(self.artifact)
        return _unpickled, (files_of(self.whole, self.target, artifact), self._present_state())

    def _present_state(self) -> PresentState:
        """The model's state and its sizes, for a pickle."""
        has = self.program.state_bytes
        return self.executable.read_state().tobytes() if has else b"", self._sizes.held

    def _restore(self, present: PresentState) -> None:
        """Gives the model the state of a pickle."""
        state, sizes = present
        self._sizes.restore(sizes)
        if state:
            self.executable.write_state(np.frombuffer(state, np.uint8))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of positional arguments."""
        return self._names

    @property
    def outputs(self) -> tuple[str, ...]:
        """What a call gives, by name."""
        return self._results

    def _run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> None:
        stopping.check()
        self._sizes.check(sizes)
        self.executable.run(inputs, outputs)

    def _allocate(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        return {
            s.name: np.empty(output_shape(s, sizes), s.dtype.numpy) for s in self.program.outputs
        }

    def _bound(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Array]:
        return as_inputs(self.program.inputs, by_name(self._parameters, arrays, named))


def _unpickled(files: Mapping[str, bytes], present: PresentState) -> Compiled:
    """What was pickled. Raises UnsupportedError where it cannot run on this machine."""
    from xlac.cache import pickled

    program, target, executable, code = pickled.opened(files)
    compiled = Compiled(program, target, executable, code)
    pickled.remove_code_with(compiled, code)
    compiled._restore(present)
    return compiled
