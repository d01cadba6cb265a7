"""Chooses the register tile of the micro-kernel, from the target's description.

A tile of R rows by V vectors holds R*V accumulators, V vectors of the right operand and one
broadcast element of the left. One step of the sum costs as much as its bottleneck: the
multiply-adds or the loads that the machine starts per cycle, the bandwidth of the second-level
cache if every row tile reads the panel from it, and never less than the latency of a multiply-add;
plus a small cost for each load, which favours tiles with few wide rows. The tile that covers the
result in the fewest cycles is chosen, among those that compute nearly as fast as any: the rate of a
cache is a measured fact, and may be wrong by half.

Without fused multiply-adds a product takes its own register and three instructions (a copy, since
the product overwrites a factor, a multiplication, an addition), and the issue width is the
bottleneck. Then the smaller of the two operands is held in registers.
"""

from __future__ import annotations

from functools import cache

from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit, even_split
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.target import Target

WIDEST = 8  # the most vectors of a tile's row
EQUAL = 1.002  # times the cycles of the best tile: such a tile is as good
SLOWER = 1.12  # times the least cycles without waiting for caches that a tile may take to wait less


def lanes_for(target: Target, dtype: DType, columns: int) -> int:
    """Lanes of a vector of columns: those of a register, fewer if there are fewer columns."""
    full = target.lanes(dtype)
    wide = 1 << max(0, columns - 1).bit_length()
    if wide >= full:
        return full
    return wide if wide == columns or target.masked or columns == 1 else wide // 2


def apart(target: Target) -> bool:
    """Whether multiplication and addition are separate instructions."""
    return target.vector_bytes > 0 and not target.fma


def cycles(rows: int, vectors: int, hardware: MachineFacts, apart: bool = False) -> float:
    """Estimated cycles of one step of the sum for a tile."""
    latency = hardware.fma_latency
    products = rows * vectors
    # the first product of a vector can overwrite it; the others need a copy first
    copied = (rows - 1) * vectors
    loads = rows + vectors
    if apart:
        # a broadcast is a load and a shuffle
        issued = (3 * products + copied + 2 * rows) / hardware.issue
        return max(issued, loads / hardware.loads, latency) + hardware.loop_cycles
    bound = max(products / hardware.fmas, loads / hardware.loads, latency)
    return bound + hardware.load_cycles * loads


def registers(rows: int, vectors: int, target: Target, dtype: DType = DType.F32) -> int:
    """Registers used by a step of the sum; separate products use two in turn, those of pairs of i16
    one before they are added.
    """
    if apart(target):
        return rows * vectors + min(rows, vectors) + 3
    pairs = dtype is DType.I32 and target.spells(Primitive.DOT2, dtype)
    return rows * vectors + vectors + 1 + pairs


def whole(
    tile: RegisterTile,
    target: Target,
    dtype: DType,
    rows: tuple[int, int],
    columns: int,
    depth: int,
    waits: bool = True,
) -> float:
    """Estimated cycles of a whole result of `rows` (two axes) by `columns`, each a sum of `depth`
    products, without packing: operands that do not stay in the first-level cache come from the
    second at its rate, if it `waits` for them.
    """
    hardware, lanes = target.hardware, tile.lanes
    outer, inner = TileSplit(rows[0], tile.rows[0]), TileSplit(rows[1], tile.rows[1])
    across = TileSplit(-(-columns // lanes), tile.vectors)
    far = (
        waits
        and inner.count * outer.count > 1
        and not apart(target)
        and depth * across.step * lanes * dtype.nbytes > target.l1_bytes // 2
    )
    rate, total = hardware.rates("l2", target.threads)[0], 0.0
    for height, many in _parts(outer):
        for length, times in _parts(inner):
            for breadth, panels in _parts(across):
                moved = (breadth * lanes + height * length) * dtype.nbytes if far else 0
                step = cycles(height * length, breadth, hardware, apart(target))
                total += many * times * panels * max(step, moved / rate)
    return total * depth


@cache
def choose(
    target: Target, dtype: DType, rows: tuple[int, int], columns: int, depth: int = 1
) -> RegisterTile:
    """The tile for a result of `rows` (two axes) by `columns`, each a sum of `depth` products."""
    lanes = lanes_for(target, dtype, columns)
    if target.size:
        return RegisterTile((1, 1), 1, lanes)
    vectors = -(-columns // lanes)
    found: dict[RegisterTile, float] = {}
    computing: dict[RegisterTile, float] = {}
    for tall in range(1, target.vector_registers):
        for wide in range(1, min(WIDEST, vectors) + 1):
            if registers(tall, wide, target, dtype) > target.vector_registers:
                break
            inner = even_split(rows[1], tall)
            outer = even_split(rows[0], max(1, tall // inner.step))
            across = even_split(vectors, wide)
            tile = RegisterTile((outer.step, inner.step), across.step, lanes)
            found[tile] = whole(tile, target, dtype, rows, columns, depth)
            computing[tile] = whole(tile, target, dtype, rows, columns, depth, waits=False)
    most = min(computing.values()) * SLOWER
    found = {tile: cycles for tile, cycles in found.items() if computing[tile] <= most}
    least = min(found.values())
    return min((tile for tile in found if found[tile] <= least * EQUAL), key=_preference)


def _preference(tile: RegisterTile) -> tuple[int, int]:
    """The order among tiles that are as good: the fewest loads, then the narrowest panel, which
    stays in caches and gives threads equal shares.
    """
    return tile.rows[0] * tile.rows[1] + tile.vectors, tile.width


def _parts(split: TileSplit) -> list[tuple[int, int]]:
    """(size, count) of the tiles of a split."""
    return [(split.step, split.full)] + ([(split.rest, 1)] if split.rest else [])
