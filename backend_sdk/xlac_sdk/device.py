"""The interface of a device that the host drives: memory, copies, launches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from xlac_sdk.source import Diagnostic, UnsupportedError

if TYPE_CHECKING:
    from xlac_sdk.kernel_ir.kernel import Kernel
    from xlac_sdk.programs.program import Call


class MemoryPlace(NamedTuple):
    """A place in a device's memory: what `Device.alloc` returned, and bytes from its start."""

    handle: Any
    offset: int = 0

    def plus(self, nbytes: int) -> MemoryPlace:
        """The place so many bytes further."""
        return MemoryPlace(self.handle, self.offset + nbytes)

    @property
    def address(self) -> int:
        """The address, where handles are addresses."""
        return int(self.handle) + self.offset


CopyEnd = MemoryPlace | memoryview
Places = tuple[MemoryPlace, ...]
Sizes = tuple[int, ...]


class Device(ABC):
    """A device driven by the host. The SDK's runner (`xlac_sdk.host.runner`) wraps one as an
    Executable.

    Copies and launches are ordered as one queue; they may return before they are done. Memory is
    named by handles, which may be addresses (integers) or objects of a driver that only take
    offsets: a place is both.
    """

    alignment: ClassVar[int] = 256
    """Bytes of which the places of inputs, outputs and constants in what `alloc` returns are
    multiples, as they are of 64. What `alloc` aligns to is a fact, `Target.storage_alignment`.
    """

    @abstractmethod
    def alloc(self, nbytes: int) -> Any:
        """Allocates at least a byte, and returns its handle. Raises LimitError if none is left."""

    @abstractmethod
    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        """Copies to, from or on the device; ordered after earlier launches. The host's memory, a
        memoryview, is used until the next `sync` ends: it stays alive and unchanged until then.
        """

    def view(self, place: MemoryPlace, nbytes: int) -> memoryview | None:
        """Bytes of the device's memory as the host sees them after a `sync`, on devices that share
        theirs with it: what the host copies itself. None for memory that only `copy` reaches.
        """
        return None

    @abstractmethod
    def launch(self, kernel: Kernel, places: Places, sizes: Sizes) -> None:
        """Runs one kernel, ordered after earlier copies and launches. Its function in C-family text
        is called `dialect.function(kernel.name)`.
        """

    def adopt(self, memory: memoryview, written: bool) -> Any:
        """A handle for the host's own memory, on devices that share it, so that a large array of a
        call is not copied; None to copy it. The memory is aligned as kernels assume
        (`Target.storage_alignment`), and the caller's again after `give_back`.
        """
        return None

    def give_back(self, handle: Any) -> None:
        """Ends the use of adopted memory, after a `sync`; what was written is in the host's."""
        raise NotImplementedError

    def prepare(self, kernel: Kernel, places: Places, sizes: Sizes) -> Callable[[], object]:
        """A function that does what `launch` would do with these arguments; it is called many
        times. Override it where arguments can be bound ahead of launches.
        """
        return partial(self.launch, kernel, places, sizes)

    def recorded(self, calls: Sequence[Callable[[], object]]) -> Sequence[Callable[[], object]]:
        """What to call in place of several calls in a row, each a `copy` on the device or what
        `prepare` returned, whose arguments never change. Override it on a device with command
        buffers: make the calls while one records them, and return what submits it. It is asked
        when a plan is made, once for each set of sizes. By default the calls themselves.
        """
        return calls

    def call(self, step: Call, places: Places) -> None:
        """Runs a whole operation with known sizes, if the device's target claims operations."""
        raise UnsupportedError(Diagnostic("XL5025", f"the device knows no operation '{step.name}'"))

    @abstractmethod
    def sync(self) -> None:
        """Waits for all earlier work; raises its errors."""

    def event(self) -> Callable[[], object]:
        """A function that waits for the work so far, and raises its errors; it may be called
        several times, and never once the device is gone. Work that comes later need not be waited
        for. Override it on a device whose queue has events; by default it is `sync`.
        """
        return self.sync

    @abstractmethod
    def free(self, handle: Any) -> None:
        """Frees memory."""
