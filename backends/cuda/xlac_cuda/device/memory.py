"""A program's GPU memory: one arena, its state and its weights, each in one allocation of known
size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, LimitError

ALIGN = 256  # bytes: what the driver's allocations are aligned to
TOLD = 3  # how many of the largest tensors an error message names
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive slots. `starts` has the offset of each."""

    starts: Mapping[Slot, int]
    nbytes: int

    @staticmethod
    def of(slots: Iterable[Slot]) -> Block:
        """These slots, each at a multiple of `ALIGN`."""
        starts, end = {}, 0
        for slot in slots:
            starts[slot] = end
            end += -(-slot.nbytes // ALIGN) * ALIGN
        return Block(starts, end)


class DeviceMemory:
    """The program's memory on a device, from loading to closing. The context must be current in
    every method.
    """

    def __init__(self, gpu: Gpu, program: Program) -> None:
        self.gpu = gpu
        self._program = program
        self._blocks: list[int] = []
        self._own: list[int] | None = None
        weights = Block.of(s for s in program.slots if s.role is Role.CONSTANT)
        self.needs = {
            "weights": weights.nbytes,
            "temporaries": program.arena_bytes,
            "state": program.state_bytes,
        }
        _check(
            gpu, self.needs, [s for s in program.slots if s.role not in (Role.INPUT, Role.OUTPUT)]
        )
        try:
            sizes = (program.arena_bytes, program.state_bytes, weights.nbytes)
            arena, self.state, data = (self._alloc(nbytes) for nbytes in sizes)
        except BaseException:
            self.free()
            raise
        self.weights = {slot: data + start for slot, start in weights.starts.items()}
        self.fixed: dict[Slot, int] = dict(self.weights)  # addresses that no call changes
        for slot in program.slots:
            if slot.role in (Role.TEMPORARY, Role.STATE):
                self.fixed[slot] = (
                    arena if slot.role is Role.TEMPORARY else self.state
                ) + slot.offset

    def beside(self, program: Program) -> DeviceMemory:
        """The memory of another program with the same slots: it shares arena, state and weights,
        and has its own inputs and outputs.
        """
        copied = copy(self)
        copied._program, copied._blocks, copied._own = program, [], None
        copied.needs, copied.weights = dict(self.needs), {}
        return copied

    @property
    def own(self) -> list[int]:
        """Addresses of inputs, then outputs, for calls with arrays in the host's memory."""
        if self._own is None:
            slots = (*self._program.inputs, *self._program.outputs)
            block = Block.of(dict.fromkeys(slots))
            needs = {"inputs and outputs": block.nbytes}
            _check(self.gpu, needs, slots)
            start = self._alloc(block.nbytes)
            self.needs |= needs
            self._own = [start + block.starts[slot] for slot in slots]
        return self._own

    def _alloc(self, nbytes: int) -> int:
        self._blocks.append(self.gpu.alloc(max(nbytes, 1)))
        return self._blocks[-1]

    def free(self) -> None:
        """Frees all of it."""
        while self._blocks:
            self.gpu.free(self._blocks.pop())


def _check(gpu: Gpu, needs: Mapping[str, int], slots: Iterable[Slot]) -> None:
    """Raises LimitError, before anything is allocated, if the device does not have
    enough memory.
    """
    free, total = gpu.memory
    wanted = sum(needs.values())
    if wanted <= free:
        return
    parts = ", ".join(f"{what} {text_of(nbytes)}" for what, nbytes in needs.items() if nbytes)
    problem = (
        f"the program needs {text_of(wanted)} of the GPU's memory ({parts}), and {text_of(free)} "
        f"of {text_of(total)} are free"
    )
    large = sorted(slots, key=lambda slot: -slot.nbytes)[:TOLD]
    named = ", ".join(
        f"{_name(slot)} {slot.dtype}{_shape(slot)} {text_of(slot.nbytes)}" for slot in large
    )
    raise LimitError(Diagnostic("XL5214", problem, hint=f"largest: {named}"))


def _name(slot: Slot) -> str:
    """The user's name of a slot, or the part of the model that it belongs to."""
    return (
        slot.origin.name
        if slot.origin and slot.role in (Role.TEMPORARY, Role.CONSTANT)
        else slot.name or slot.symbol
    )


def _shape(slot: Slot) -> str:
    return f"[{', '.join(map(str, slot.shape))}]"


def text_of(nbytes: int) -> str:
    """`1.5 GiB`"""
    size, unit = float(nbytes), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{nbytes} B"


def released(gpu: Gpu, what: Iterable[Callable[[], None]]) -> None:
    """Calls each function, in order, with the context current. Errors of a lost context are
    ignored, as its resources are gone.
    """
    try:
        with gpu.current():
            for give_back in what:
                try:
                    give_back()
                except DeviceError:
                    continue
    except DeviceError:
        return
