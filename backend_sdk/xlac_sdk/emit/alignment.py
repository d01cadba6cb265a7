"""How far the addresses that kernels are given are known to be aligned: wide accesses need it."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING

from xlac_sdk.dims import divisor
from xlac_sdk.programs.program import Argument, Launch, Program, Slot, walk

if TYPE_CHECKING:
    from xlac_sdk.kernel_ir.kernel import Kernel


def alignments(program: Program, start: Callable[[Slot], int]) -> dict[Kernel, tuple[int, ...]]:
    """Bytes that divide the address of each parameter in every launch; `start` says those of a
    slot's.
    """
    found: dict[Kernel, tuple[int, ...]] = {}
    for step in walk(program.every_step):
        if isinstance(step, Launch):
            these = tuple(known(argument, start) for argument in step.arguments)
            before = found.get(step.kernel, these)
            found[step.kernel] = tuple(map(gcd, before, these))
    return found


def known(argument: Argument, start: Callable[[Slot], int]) -> int:
    """Bytes that divide an argument's address, wherever the loops around its launch are."""
    size = argument.slot.dtype.nbytes
    moves = [argument.offset, *(stride for _, stride in argument.strides)]
    return gcd(start(argument.slot), *(divisor(move) * size for move in moves))
