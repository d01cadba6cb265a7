"""A program with entries on a GPU: a training step, an evaluation and the model share one arena,
state and weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.run.executable import CudaExecutable
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.host.entry_calls import no_length, not_finite
from xlac_sdk.programs.entries import parts
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.target import Target


class CudaEntries(CudaExecutable):
    """The model, and its entries as executables over the same memory. One runs at a time; entries
    take arrays of the host, and are complete when they return.
    """

    def __init__(
        self, artifact: Path, program: Program, target: Target, device: Gpu | None = None
    ) -> None:
        super().__init__(artifact, program, target, device)
        assert program.entries is not None
        entries = {entry.name: entry for entry in program.entries.entries}
        *others, first = parts(program)
        self._called = {
            name: (entry, self._beside(artifact, one, target))
            for (name, entry), one in zip(entries.items(), others, strict=True)
        }
        self._first = self._beside(artifact, replace(first, sizes=()), target)
        self.reset()

    def _beside(self, artifact: Path, program: Program, target: Target) -> CudaExecutable:
        """An executable over the memory of this one, which is closed with it."""
        executable = CudaExecutable(artifact, program, target, self.gpu, self.memory)
        self._give_back.append(executable.close)
        return executable

    def enter(self, entry: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """`run` for an entry of the program."""
        what, executable = self._called[entry]
        with self.turn:
            if self._torn:
                raise stopping.torn()
            self._end_calls()
            if what.needs is not None and not self._read(what.needs).any():
                raise no_length()
            try:
                executable.run(inputs, outputs)
            finally:
                self._torn = executable._torn
            if what.succeeded is not None and not self._read(what.succeeded).any():
                raise not_finite()

    def reset(self) -> None:
        """Resets the state to its initial contents."""
        super().reset()
        with self.turn:
            self._end_calls()
            self._first._torn = False
            self._first.run({}, {})
        self._whole_again()

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes bytes of the state block."""
        super().write_state(block, start)
        self._whole_again()

    def _whole_again(self) -> None:
        for _, executable in self._called.values():
            executable._torn = self._torn

    def _end_calls(self) -> None:
        """Waits for pending calls of the model, which use the same arena."""
        self.turn_to(self.stream)
        self.gpu.sync(self.stream)

    def _read(self, slot: Slot) -> Array:
        """The bytes of a slot of the arena or the state, after pending work."""
        array = np.zeros(slot.nbytes, np.uint8)
        address = array.__array_interface__["data"][0]
        self.gpu.download(address, self.memory.fixed[slot], array.nbytes, self.stream)
        self.gpu.sync(self.stream)
        return array


def loaded(
    artifact: Path, program: Program, target: Target, device: Gpu | None = None
) -> CudaExecutable:
    """A program on a GPU, with its entries if it has some."""
    kind = CudaExecutable if program.entries is None else CudaEntries
    return kind(artifact, program, target, device)
