"""What a group needs between its kernels: results take memory from the kernel that writes them
first, and an operand is freed after the last kernel that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac.codegen.core.lowered_group import LoweredGroup, Scratch, Value
from xlac.ir.dims import bounds
from xlac.ir.graph import Node
from xlac.memory.arena import ALIGN


@dataclass(frozen=True, slots=True)
class Phases:
    """Bytes by which a group's peak is below the sum of its scratch memory and results: `late`,
    since results are not there from the beginning; and, where `operand` is read last by the group,
    `freed` more, since it is not there to the end. `operand` is None where that saves nothing.
    """

    late: int = 0
    operand: int | None = None
    freed: int = 0


def phases(
    lowered: LoweredGroup, reads: Mapping[Node, int], writes: Mapping[Node, int], sizes: list[int]
) -> Phases:
    """The phases of a group. `reads` and `writes` are the buffers of the values that its kernels
    take as arguments, results that share an operand's memory left out; `sizes` are the bytes of
    all buffers.
    """
    launches = lowered.launches
    if len(launches) < 2 or lowered.call is not None:
        return Phases()
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for at, launch in enumerate(launches):
        for value in launch.arguments:
            first.setdefault(value, at)
            last[value] = at
    for copy in lowered.copies:
        first[copy.target] = 0
        last.setdefault(copy.target, 0)
        last.setdefault(copy.source, 0)
    scratch = [0] * len(launches)
    with_results = [0] * len(launches)
    for value, start in first.items():
        if isinstance(value, Scratch) and not value.persistent:
            for at in range(start, last[value] + 1):
                scratch[at] += _nbytes(value)
        elif isinstance(value, Node) and value in writes:
            for at in range(start, len(launches)):
                with_results[at] += sizes[writes[value]]
    here = [a + b for a, b in zip(scratch, with_results, strict=True)]
    whole, peak = max(scratch) + with_results[-1], max(here)
    best = Phases(whole - peak)
    for buffer in dict.fromkeys(reads.values()):
        end = max((last.get(v, len(launches)) for v, b in reads.items() if b == buffer), default=0)
        dying = max(n + (sizes[buffer] if at <= end else 0) for at, n in enumerate(here))
        if (freed := peak + sizes[buffer] - dying) > best.freed:
            best = Phases(whole - peak, buffer, freed)
    return best


def _nbytes(scratch: Scratch) -> int:
    size = scratch.size if isinstance(scratch.size, int) else bounds(scratch.size)[1]
    return -(-size * scratch.dtype.nbytes // ALIGN) * ALIGN
