"""Whether a product, a convolution or an attention takes long enough for threads to share it, and
how much of it a thread takes at once.
"""

from __future__ import annotations

from xlac.codegen.schedules.schedule import Threads
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

# Cycles that a kernel must take for each thread that shares it. To begin a job and to wait for its
# end takes a few hundred for each thread that is awake (bench/NOTES.md, 30 November 2026). Whether
# sleeping threads are woken for it is the backend's choice, which knows the whole program.
CYCLES = 3000
PIECE_FLOPS = 1 << 17  # the fewest operations that a thread takes at once


def shared(items: int, flops: int, dtype: DType, target: Target, nbytes: int = 0) -> Threads:
    """How threads share a loop of `items` iterations, with `flops` operations in total; `nbytes` as
    for `pays`. Every thread has a part of it.
    """
    parallel = items > 1 and pays(flops, dtype, target, nbytes)
    grain = max(1, PIECE_FLOPS * items // max(1, flops))
    return Threads(int(parallel), max(1, min(grain, items // max(2, target.threads))))


def pays(flops: int, dtype: DType, target: Target, nbytes: int = 0) -> bool:
    """Whether sharing operations of a type pays, which read `nbytes` of an operand that few rows
    share: reading the weights of a product takes longer then than multiplying by them.
    """
    facts = target.hardware
    multiplying = flops / (2 * facts.fmas * target.lanes(dtype))
    reading = nbytes / facts.rates("l2", 1)[0]
    return max(multiplying, reading) >= CYCLES * max(2, target.threads)
