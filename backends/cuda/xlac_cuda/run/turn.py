"""Serializes calls of a program: the context is current inside, and an error that destroyed it is
remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu


class Turn:
    """`with turn:` around everything that uses the device, or `take`, `with turn.part():` and
    `leave`. They raise after an error that destroyed the context, or after `close`.
    """

    __slots__ = ("_name", "ended", "lock", "pop", "push")

    def __init__(self, gpu: Gpu, name: str) -> None:
        self._name = name
        self.push, self.pop = gpu.push, gpu.pop
        self.lock = threading.Lock()
        self.ended: DeviceError | RuntimeError | None = None

    def __enter__(self) -> None:
        self.take()
        try:
            self.push()
        except BaseException:
            self.lock.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, DeviceError):
                self.ended = error.again()
            self.pop()
        finally:
            self.lock.release()

    def take(self) -> None:
        """Begins a turn whose parts may be in several threads, until `leave`."""
        self.lock.acquire()
        if self.ended is not None:
            self.lock.release()
            raise (
                self.ended.again()
                if isinstance(self.ended, DeviceError)
                else RuntimeError(*self.ended.args)
            )

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of a turn, in which the context is current in this thread."""
        self.push()
        try:
            yield
        except DeviceError as error:
            self.ended = error.again()
            raise
        finally:
            self.pop()

    def leave(self) -> None:
        """Ends a turn of `take`."""
        self.lock.release()

    def close(self) -> bool:
        """Ends all turns, after waiting for the current one; False if they had ended already."""
        with self.lock:
            if isinstance(self.ended, RuntimeError):
                return False
            self.ended = RuntimeError(f"the program '{self._name}' is closed")
            return True
