"""The memory of results that are handed out: allocated in stream order, and reused at the same
addresses for later calls once the caller has dropped them, so that graphs need no update.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

from xlac_cuda.device.arrays import LEGACY, DeviceArray
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.device.memory import text_of
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError

KEPT = 4  # free pieces of one size that are kept
SIZES = 32  # sizes of which free pieces are kept

T = TypeVar("T")
# an address, the stream that wrote it, and whether the legacy stream may still read it
Piece = tuple[int, int, bool]


class DeviceOutputs:
    """The results of one program, and its stream, which lives until the last of them is dropped.

    Results are made and dropped on any thread, also during garbage collection: free pieces are in
    lists, from which pieces are atomically popped. The lock is for rare operations.
    """

    def __init__(self, gpu: Gpu, named: Callable[[DeviceError], DeviceError]) -> None:
        """`named` adds to an error the name of the kernel that failed, if that can be found."""
        self.gpu, self._named = gpu, named
        self.stream = gpu.stream()
        self._waiting: dict[int, list[Piece]] = {}  # free pieces, by size
        self._events: list[int] = []  # events that are free
        self._lock = threading.RLock()
        self._pieces = 0  # pieces that are free or handed out
        self._closed = False

    def make(self, dtype: DType, shape: tuple[int, ...], nbytes: int, stream: int) -> DeviceArray:
        """Memory for a result that will be written in a stream. The context must be current."""
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
        """Newly allocated memory. If allocation fails, free pieces are released first."""
        try:
            address = self.gpu.driver.handle("cuMemAllocAsync", max(nbytes, 1), stream)
        except LimitError:
            self._drop([piece for kept in list(self._waiting.values()) for piece in _taken(kept)])
            self.gpu.sync(LEGACY)
            try:
                address = self.gpu.driver.handle("cuMemAllocAsync", max(nbytes, 1), stream)
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
        """Takes back the memory of a dropped result."""
        kept = self._waiting[nbytes]
        kept.append(piece)
        if len(kept) > KEPT or self._closed:
            self._drop(_taken(kept, KEPT * (not self._closed)))

    def order(self, first: int, then: int) -> None:
        """Orders later work of one stream after all work so far of another. The context must be
        current.
        """
        if first == then:
            return
        with self._event() as event:
            self.gpu.record(event, first)
            # the wait applies to the recorded state, so the event can be reused
            self.gpu.wait(then, event)

    def mark(self, stream: int) -> int:
        """An event after a stream's work so far, to be given back. The context must be current."""
        event = _popped(self._events) or self.gpu.event()
        self.gpu.record(event, stream)
        return event

    def give_marks(self, events: Iterable[int]) -> None:
        """Takes back events of `mark` that nobody waits for any more."""
        self._events.extend(events)
        if self._closed:
            self._drop(())

    @contextmanager
    def _event(self) -> Iterator[int]:
        event = _popped(self._events) or self.gpu.event()
        try:
            yield event
        finally:
            self.give_marks((event,))

    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """Copies a result to the host's memory."""
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
        """Releases free pieces; results that callers hold stay valid."""
        self._closed = True
        self._drop([piece for kept in list(self._waiting.values()) for piece in _taken(kept)])

    def _drop(self, pieces: Sequence[Piece]) -> None:
        """Frees memory, and after `close` everything that is no longer needed."""
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
            return  # the context is lost, and its memory with it


def _popped(events: list[int]) -> int:
    """A free event; 0 if there is none."""
    try:
        return events.pop()
    except IndexError:
        return 0


def _taken(kept: list[T], left: int = 0) -> list[T]:
    """Pops items from a list until only `left` remain."""
    taken: list[T] = []
    while len(kept) > left:
        try:
            taken.append(kept.pop())
        except IndexError:  # another thread was faster
            break
    return taken
