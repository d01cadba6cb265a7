"""The software pipeline over tiles of a sum: some tiles are being copied to SHARED memory while
another is multiplied.

`stages` tiles of each operand share a ring buffer. In each iteration a thread waits for the copies
of the current tile, meets the others at a barrier, starts the copies of a later tile, and
multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlac.codegen.gpu.core import instructions
from xlac.codegen.gpu.core.shared_staging import SharedStaging
from xlac.ir.dims import Dim
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, Instruction
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Lane:
    """One operand's ring buffer: the staging of its tiles, the memory, and the elements
    of a tile.
    """

    side: SharedStaging
    buffer: Buffer
    size: int

    def at(self, turn: Expr) -> Expr:
        """The offset of the tile of an iteration."""
        return build.mul(turn, self.size)


def run(
    builder: Builder,
    target: Target,
    lanes: Sequence[Lane],
    first: Expr,
    end: build.Number,
    step: int,
    stages: int,
    multiply: Callable[[Expr, list[Expr]], None],
    depth: Dim,
    before: Instruction | None = None,
) -> None:
    """Calls `multiply(k, starts)` for every tile of the sum from `first` to `end`, which are
    multiples of `step`.

    `k` is the tile's first step; `starts` are the offsets of the tile in each operand's memory.
    Tiles past the sum's `depth` are zeros.
    """
    sent = [lane for lane in lanes if lane.side.asynchronous]
    held = [lane for lane in lanes if lane not in sent]
    for ahead in range(stages - 1):
        at, turn = build.add(first, ahead * step), build.lift(ahead)
        for lane in sent:
            lane.side.send(at, lane.buffer, lane.at(turn))
        if sent:
            builder.emit(instructions.commit())
        for lane in held:
            beyond = (
                not isinstance(depth, int) or not isinstance(at, Const) or int(at.value) >= depth
            )
            lane.side.put(lane.side.fetch(at, beyond=beyond), lane.buffer, lane.at(turn))
    with builder.loop("k", first, end, step) as k:
        number = build.div(build.sub(k, first), step)
        turn = builder.let("turn", build.mod(number, stages))
        later = builder.let("later", build.mod(build.add(number, stages - 1), stages))
        ahead_by = builder.let("next", build.add(k, (stages - 1) * step))
        if sent:
            builder.emit(instructions.wait(stages - 2))
        if before is not None:
            builder.emit(before)
        builder.barrier()
        for lane in sent:
            lane.side.send(ahead_by, lane.buffer, lane.at(later))
        if sent:
            builder.emit(instructions.commit())
        values = [lane.side.fetch(ahead_by, beyond=True) for lane in held]
        multiply(k, [builder.let("tile", lane.at(turn)) for lane in lanes])
        for lane, value in zip(held, values, strict=True):
            lane.side.put(value, lane.buffer, lane.at(later))
