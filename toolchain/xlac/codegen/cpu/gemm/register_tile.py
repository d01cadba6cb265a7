"""Chooses the block of results that the micro-kernel keeps in registers, from what the target says
of itself.

A tile of R rows by V vectors holds R*V accumulators, V vectors of the right operand and one
broadcast element of the left. One step of the sum costs as much as its busiest unit: two
multiply-adds or two loads a cycle, what the second cache gives where a panel comes from it for
every row tile again, and never less than the latency of a multiply-add; and a little more for each
load. The tile that covers the result in the fewest cycles wins.

Without fused multiply-adds a product takes a register of its own and three instructions (a copy,
since the product overwrites a factor, a multiplication, an addition), and how many instructions
begin in a cycle decides. What is held then is the fewer of the two operands.
"""

from __future__ import annotations

from functools import cache

from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit, even_split
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

LATENCY = 4  # cycles until a multiply-add's result can be added to
NEAR = 24  # bytes a cycle that the second cache gives
LOOP = 0.25  # cycles that counting takes where instructions are what is short
# cycles that a load costs though units for loads are free: few wide rows of a tile beat many narrow
# ones
LOAD = 0.08
WIDEST = 8  # vectors a tile is wide at most
ISSUE = 6  # instructions on vectors that begin in a cycle


def lanes_for(target: Target, dtype: DType, columns: int) -> int:
    """Lanes of a vector of columns: those of a register, fewer when there are fewer columns."""
    full = target.lanes(dtype)
    wide = 1 << max(0, columns - 1).bit_length()
    if wide >= full:
        return full
    return wide if wide == columns or target.masked or columns == 1 else wide // 2


def apart(target: Target) -> bool:
    """Whether vectors are multiplied by one instruction and added by another."""
    return target.vector_bytes > 0 and not target.fma


def cycles(rows: int, vectors: int, apart: bool = False) -> float:
    """Estimated cycles of one step of the sum for a tile."""
    products = rows * vectors
    # once more: the first product of a vector is what was loaded, the others are copies and wait
    copied = (rows - 1) * vectors
    loads = rows + vectors
    if apart:
        # a broadcast is a load and a shuffle
        return max((3 * products + copied + 2 * rows) / ISSUE, loads / 2, LATENCY) + LOOP
    return max(products / 2, loads / 2, LATENCY) + LOAD * loads


def registers(rows: int, vectors: int, target: Target) -> int:
    """Registers that a step of the sum needs; products of their own take two in turn."""
    return rows * vectors + (min(rows, vectors) + 3 if apart(target) else vectors + 1)


@cache
def choose(
    target: Target, dtype: DType, rows: tuple[int, int], columns: int, depth: int = 1
) -> RegisterTile:
    """The tile for a result of `rows` (two axes) by `columns`, each a sum of `depth` products."""
    lanes = lanes_for(target, dtype, columns)
    if target.size:
        return RegisterTile((1, 1), 1, lanes)
    vectors = -(-columns // lanes)
    best: tuple[float, RegisterTile] | None = None
    for tall in range(1, target.vector_registers):
        for wide in range(1, min(WIDEST, vectors) + 1):
            if registers(tall, wide, target) > target.vector_registers:
                break
            inner = even_split(rows[1], tall)
            outer = even_split(rows[0], max(1, tall // inner.step))
            across = even_split(vectors, wide)
            passes = inner.count * outer.count
            far = (
                passes > 1
                and not apart(target)
                and depth * across.step * lanes * dtype.nbytes > target.l1_bytes // 2
            )
            total = 0.0
            for height, many in _parts(outer):
                for length, times in _parts(inner):
                    for breadth, panels in _parts(across):
                        moved = (breadth * lanes + height * length) * dtype.nbytes if far else 0
                        total += (
                            many
                            * times
                            * panels
                            * max(cycles(height * length, breadth, apart(target)), moved / NEAR)
                        )
            if best is None or total < best[0] * 0.995:
                best = total, RegisterTile((outer.step, inner.step), across.step, lanes)
    assert best is not None
    return best[1]


def _parts(split: TileSplit) -> list[tuple[int, int]]:
    """(size, how many) of the tiles of a split."""
    return [(split.step, split.full)] + ([(split.rest, 1)] if split.rest else [])
