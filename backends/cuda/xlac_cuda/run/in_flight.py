"""A call with arrays of the host in parts, between which the host does other work: copies are in
the program's stream, and a call waits for nothing before its results are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.pinned import is_pinned
from xlac_cuda.device.staging import Bytes
from xlac_cuda.run.calls import form_of
from xlac_sdk.dtypes import Array

if TYPE_CHECKING:
    from xlac_cuda.run.executable import CudaExecutable


class CudaCall:
    """A `CallInFlight`. The program's turn lasts as long. Arrays in pinned memory are copied by the
    device alone; others are copied to pinned memory when they are sent, and from it when they are
    waited for.
    """

    def __init__(self, executable: CudaExecutable) -> None:
        self._of = executable
        self._given: dict[str, Array] = {}
        self._left: dict[str, tuple[Bytes, int]] = {}  # pageable outputs, and where they are
        self._marks: dict[str, int] = {}  # events after the copies of outputs
        try:
            executable.turn.take()
        except DeviceError as error:
            raise executable.faults.named(error) from None

    @contextmanager
    def _part(self) -> Iterator[CudaExecutable]:
        """A scope that uses the device; its errors name kernels, and end all turns."""
        try:
            with self._of.turn.part():
                yield self._of
        except DeviceError as error:
            raise self._of.faults.named(error, self._given) from None

    def whole(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """All of it, one part after the other."""
        try:
            with self._part() as of:
                of.turn_to(of.stream)
                for name in of.names:
                    self._send(of, name, inputs[name])
                self._issue(of)
                for _, (target, address) in self._results(of, outputs):
                    of.staging.download(target, address, of.stream)
                of.gpu.sync(of.stream)
        finally:
            self._of.turn.leave()

    def send(self, name: str, array: Array) -> None:
        """Starts to copy an input to the device, in the program's stream."""
        with self._part() as of:
            of.turn_to(of.stream)
            self._send(of, name, array)

    def _send(self, of: CudaExecutable, name: str, array: Array) -> None:
        self._given[name] = array
        address, flat = of.memory.own[of.names.index(name)], _bytes(array)
        if flat.nbytes and is_pinned(of.gpu, flat):
            of.gpu.upload(address, _address(flat), flat.nbytes, of.stream)
        else:
            of.staging.upload(address, flat, of.stream)

    def start(self, outputs: Mapping[str, Array]) -> None:
        """Submits the program, and the copies of results to pinned memory."""
        with self._part() as of:
            of.turn_to(of.stream)
            self._issue(of)
            for name, (target, address) in self._results(of, outputs):
                if target.nbytes and is_pinned(of.gpu, target):
                    of.gpu.download(_address(target), address, target.nbytes, of.stream)
                    self._marks[name] = of.results.mark(of.stream)
                else:
                    self._left[name] = target, address

    def _issue(self, of: CudaExecutable) -> None:
        shapes = tuple([self._given[name].shape for name in of.names])
        of.issue(form_of(of, shapes), tuple(of.memory.own), of.stream)

    def _results(
        self, of: CudaExecutable, outputs: Mapping[str, Array]
    ) -> Iterator[tuple[str, tuple[Bytes, int]]]:
        """The bytes of each output, in the order of `outputs`, and the address that they are copied
        from.
        """
        names = (slot.name for slot in of.program.outputs)
        addresses = dict(zip(names, of.memory.own[len(of.names) :], strict=True))
        for name, array in outputs.items():
            yield name, (_bytes(array), addresses[name])

    def wait(self, name: str) -> None:
        """Waits for an output; copies it, where it is not in pinned memory."""
        with self._part() as of:
            if name in self._marks:
                of.gpu.reached(self._marks[name])
            elif name in self._left:
                target, address = self._left.pop(name)
                of.staging.download(target, address, of.stream)

    def end(self) -> None:
        """Waits for the program's stream."""
        try:
            with self._part() as of:
                of.gpu.sync(of.stream)
        finally:
            self._of.results.give_marks(self._marks.values())
            self._of.turn.leave()


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _address(flat: Bytes) -> int:
    address: int = flat.__array_interface__["data"][0]
    return address
