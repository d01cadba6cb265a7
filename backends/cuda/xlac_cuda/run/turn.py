"""One call at a time in a program: others wait, the context is current inside, and what ended the
program is remembered.
"""

from __future__ import annotations

import threading

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu


class Turn:
    """`with turn:` around whatever works on the device. Nothing works after an error that ended the
    context, or after `close`.
    """

    __slots__ = ("_name", "ended", "lock", "pop", "push")

    def __init__(self, gpu: Gpu, name: str) -> None:
        self._name = name
        self.push, self.pop = gpu.push, gpu.pop
        self.lock = threading.Lock()
        self.ended: DeviceError | RuntimeError | None = None

    def __enter__(self) -> None:
        self.lock.acquire()
        try:
            if self.ended is not None:
                raise (
                    self.ended.again()
                    if isinstance(self.ended, DeviceError)
                    else RuntimeError(*self.ended.args)
                )
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

    def close(self) -> bool:
        """No more turns; False where that was so already. Waits for the one that is under way."""
        with self.lock:
            if isinstance(self.ended, RuntimeError):
                return False
            self.ended = RuntimeError(f"the program '{self._name}' is closed")
            return True
