"""The known alignment of the addresses passed to kernels, which wide accesses need."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING

from xlac_sdk.dims import divisor
from xlac_sdk.programs.program import Argument, Launch, Program, Slot, walk

if TYPE_CHECKING:
    from xlac_sdk.kernel_ir.kernel import Kernel


def alignments(program: Program, start: Callable[[Slot], int]) -> dict[Kernel, tuple[int, ...]]:
    """The known alignment in bytes of each parameter over all launches; `start` gives that of a
    slot.
    """
    by_kernel: dict[Kernel, tuple[int, ...]] = {}
    for step in walk(program.every_step):
        if isinstance(step, Launch):
            these = tuple(known(argument, start) for argument in step.arguments)
            before = by_kernel.get(step.kernel, these)
            by_kernel[step.kernel] = tuple(map(gcd, before, these))
    return by_kernel


def known(argument: Argument, start: Callable[[Slot], int]) -> int:
    """The known alignment in bytes of an argument's address, for all iterations of the loops around
    its launch.
    """
    size = argument.slot.dtype.nbytes
    moves = [argument.offset, *(stride for _, stride in argument.strides)]
    return gcd(start(argument.slot), *(divisor(move) * size for move in moves))
