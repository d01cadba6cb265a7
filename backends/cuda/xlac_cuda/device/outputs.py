"""Memory of results that are handed out: taken in a stream's order, and used again for the next
call's when the caller has dropped them, at the same addresses, so that a graph need not be changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

from xlac_cuda.device.arrays import LEGACY, DeviceArray
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.memory import text_of
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError

KEPT = 4  # pieces of one size that wait to be used again
SIZES = 32  # so many sizes of them

T = TypeVar("T")
# an address, the stream that wrote there, and whether the legacy one may read it still
Piece = tuple[int, int, bool]


class DeviceOutputs:
    """The results of one program, and the stream that it works in, which lives until the last of
    them is dropped.

    Results are made and dropped in any thread, and wherever Python collects: pieces wait in lists,
    whose ends are taken and put in one step. The lock is for what happens rarely.
    """

    def __init__(self, gpu: Gpu, named: Callable[[DeviceError], DeviceError]) -> None:
        """`named` gives an error the name of the kernel that failed, where that can be found
        out.
        """
        self.gpu, self._named = gpu, named
        self.stream = gpu.stream()
        self._waiting: dict[int, list[Piece]] = {}  # to be used again, by size
        self._events: list[int] = []  # that nobody uses at the moment
        self._lock = threading.RLock()
        self._pieces = 0  # that wait or are handed out
        self._closed = False

    def make(self, dtype: DType, shape: tuple[int, ...], nbytes: int, stream: int) -> DeviceArray:
        """Room for a result, to be written in a stream. The context is current."""
        try:
            address, writer, read = self._waiting[nbytes].pop()
        except (KeyError, IndexError):
            return DeviceArray(
                self, self._new(dtype, shape, nbytes, stream), dtype, shape, nbytes, stream
            )
        if writer != stream:
            self.order(writer, stream)
        if read and stream != LEGACY:
            self.order(LEGACY, stream)
        return DeviceArray(self, address, dtype, shape, nbytes, stream)

    def _new(self, dtype: DType, shape: tuple[int, ...], nbytes: int, stream: int) -> int:
        """Memory of a size that none waits of. Where there is none, what waits is given back
        first.
        """
        try:
            address = self.gpu.driver.made("cuMemAllocAsync", max(nbytes, 1), stream)
        except LimitError:
            self._drop([piece for kept in list(self._waiting.values()) for piece in _taken(kept)])
            self.gpu.sync(LEGACY)
            try:
                address = self.gpu.driver.made("cuMemAllocAsync", max(nbytes, 1), stream)
            except LimitError:
                free, total = map(text_of, self.gpu.memory)
                what = (
                    f"a result, {dtype}[{', '.join(map(str, shape))}], needs {text_of(nbytes)} of "
                    "the GPU's memory"
                )
                raise LimitError(
                    Diagnostic("XL5214", f"{what}, and {free} of {total} are free")
                ) from None
        with self._lock:
            self._pieces += 1
            self._waiting.setdefault(nbytes, [])
            sizes = [kept for kept in self._waiting.values() if kept]
        for oldest in sizes[:-SIZES]:
            self._drop(_taken(oldest))
        return address

    def give_back(self, nbytes: int, piece: Piece) -> None:
        """A result was dropped."""
        kept = self._waiting[nbytes]
        kept.append(piece)
        if len(kept) > KEPT or self._closed:
            self._drop(_taken(kept, KEPT * (not self._closed)))

    def order(self, first: int, then: int) -> None:
        """What one stream is asked for from now on comes after all that another was asked for. The
        context is current.
        """
        if first == then:
            return
        with self._event() as event:
            self.gpu.record(event, first)
            # for what was recorded until now: the event can be used again
            self.gpu.wait(then, event)

    @contextmanager
    def _event(self) -> Iterator[int]:
        try:
            event = self._events.pop()
        except IndexError:
            event = self.gpu.event()
        try:
            yield event
        finally:
            self._events.append(event)
            if self._closed:
                self._drop(())

    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """A result in the host's memory."""
        try:
            with self.gpu.current():
                if target.nbytes:
                    self.gpu.download(
                        target.ctypes.data, source.address, target.nbytes, source.stream
                    )
                self.gpu.sync(source.stream)
        except DeviceError as error:
            raise self._named(error) from None

    def close(self) -> None:
        """Gives back what waits to be used again; results that callers hold stay theirs."""
        self._closed = True
        self._drop([piece for kept in list(self._waiting.values()) for piece in _taken(kept)])

    def _drop(self, pieces: Sequence[Piece]) -> None:
        """Gives memory back to the driver, and after `close` all that is no longer needed."""
        try:
            with self.gpu.current():
                for address, writer, _ in pieces:
                    self.order(writer, LEGACY)
                    self.gpu.driver("cuMemFreeAsync", address, LEGACY)
                with self._lock:
                    self._pieces -= len(pieces)
                    last = self._closed and not self._pieces and self.stream
                    stream, self.stream = (self.stream, 0) if last else (0, self.stream)
                for event in _taken(self._events) if self._closed else ():
                    self.gpu.drop_event(event)
                if stream:
                    self.gpu.drop_stream(stream)
        except DeviceError:
            return  # of a context that is lost: all went with it


def _taken(kept: list[T], left: int = 0) -> list[T]:
    """What is taken out of a list until only so many are left."""
    found: list[T] = []
    while len(kept) > left:
        try:
            found.append(kept.pop())
        except IndexError:  # somebody else was quicker
            break
    return found
