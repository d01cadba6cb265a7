"""Schedules of elementwise groups on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class TransposedBlocks(Part):
    """Square blocks of `side` elements in which a transposition is done, so that it stays in the
    first-level cache: of the vector loop and of the loop `across`, along which some operands are
    contiguous. `in_registers`, blocks consist of squares of vectors that are transposed in
    registers; with `prefetch`, a square prefetches what the next ones load.
    """

    across: Natural
    side: Positive
    in_registers: bool
    prefetch: bool


@dataclass(frozen=True, slots=True)
class Nest(Part):
    """One loop nest. `loops` are the axes that each loop merges, outermost first; loop number
    `vector` is innermost, in vectors of `lanes` elements, `unroll` of them at once, which form one
    long vector if they `join`.

    If `chunk` is not 0, that loop is split into pieces of `chunk` elements; `threads` share the
    loop over pieces with the other outer loops. `streaming` stores bypass the caches.
    """

    loops: tuple[tuple[int, ...], ...]
    vector: Natural
    lanes: Positive
    unroll: Positive
    join: bool
    blocks: TransposedBlocks | None
    chunk: Natural
    threads: Threads
    streaming: bool


@dataclass(frozen=True, slots=True)
class ElementwiseSchedule(Schedule):
    """A nest for each shape of the outputs, and for each piece of an output that is a
    concatenation; one kernel has at most `nests_per_kernel` of them.
    """

    template: ClassVar[str] = "elementwise"
    nests_per_kernel: Positive
    nests: tuple[Nest, ...]
