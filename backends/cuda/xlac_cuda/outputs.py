"""Memory of results that are handed out: taken in a stream's order, and used again for the next call's when the caller has
dropped them, at the same addresses, so that a graph need not be changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from xlac_cuda.arrays import LEGACY, DeviceArray
from xlac_cuda.errors import DeviceError
from xlac_cuda.gpu import Gpu
from xlac_sdk.dtypes import DType

KEPT = 4  # pieces of one size that wait to be used again

Piece = tuple[int, frozenset[int]]  # an address, and the streams that may still use what is there


class Outputs:
    """The results of one program, and the stream that it works in, which lives until the last of them is dropped."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.stream = gpu.stream()
        self._free: dict[int, list[Piece]] = {}  # by size
        self._lock = threading.RLock()  # a result may be dropped anywhere, here too
        self._out = 0
        self._closed = False

    def make(self, dtype: DType, shape: tuple[int, ...], nbytes: int, stream: int) -> DeviceArray:
        """Room for a result, to be written in a stream. The context is current."""
        with self._lock:
            kept = self._free.get(nbytes)
            address, readers = kept.pop() if kept else (0, frozenset[int]())
            self._out += 1
        if not address:
            address = self.gpu.driver.made("cuMemAllocAsync", max(nbytes, 1), stream)
        for reader in readers:
            self.order(reader, stream)
        return DeviceArray(self, address, dtype, shape, nbytes, stream)

    def order(self, first: int, then: int) -> None:
        """What one stream is asked for from now on comes after all that another was asked for. The context is current."""
        if first == then:
            return
        event = self.gpu.event()
        try:
            self.gpu.record(event, first)
            self.gpu.wait(then, event)
        finally:
            self.gpu.drop_event(event)

    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """A result in the host's memory."""
        with self.gpu.current():
            if target.nbytes:
                self.gpu.download(target.ctypes.data, source.address, target.nbytes, source.stream)
            self.gpu.sync(source.stream)

    def give_back(self, address: int, nbytes: int, readers: Iterable[int]) -> None:
        """A result was dropped."""
        with self._lock:
            self._out -= 1
            piece = address, frozenset(readers)
            kept = self._free.setdefault(nbytes, [])
            if not self._closed and len(kept) < KEPT:
                kept.append(piece)
                return
        self._drop([piece])

    def close(self) -> None:
        """Gives back what waits to be used again; results that callers hold stay theirs."""
        with self._lock:
            self._closed = True
            pieces = [piece for kept in self._free.values() for piece in kept]
            self._free.clear()
        self._drop(pieces)

    def _drop(self, pieces: list[Piece]) -> None:
        try:
            with self.gpu.current():
                for address, readers in pieces:
                    for reader in readers:
                        self.order(reader, LEGACY)
                    self.gpu.driver("cuMemFreeAsync", address, LEGACY)
                with self._lock:
                    last = self._closed and not self._out and self.stream
                    stream, self.stream = (self.stream, 0) if last else (0, self.stream)
                if stream:
                    self.gpu.drop_stream(stream)
        except DeviceError:
            return  # of a context that is lost: all went with it
