"""Chooses whether attention is lowered whole on a CPU, and its blocking. The number of keys per
block decides how sums round, so only shipped facts are read, never measured ones.
"""

from __future__ import annotations

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.tiling import RegisterTile, even_split
from xlac.codegen.core.loop_nest import CHUNKS, check_threads
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.threads_pay import shared
from xlac.codegen.schedules.attention import OnlineSoftmaxSchedule
from xlac.codegen.schedules.schedule import Misfit, Threads
from xlac.ir.dims import bounds, ceil_div, size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.nn.attention import MaskedHeads
from xlac_sdk.target import Target

VECTORS = 4  # vectors of scores that are processed at once
LEAST = 32  # scores smaller than 1/NEAR of the second-level cache are left to the expansion
NEAR = 8  # scores below such a fraction of the second-level cache are left to the expansion
STACK = 1 << 20  # the most bytes of a block, which is on a thread's stack


def takes(node: Node, target: Target) -> bool:
    """Whether there are enough queries and keys to fill a tile, and the values' width is a multiple
    of a vector.
    """
    op, target = node.op, target.shipped
    assert isinstance(op, MaskedHeads)
    (batch, many, time, width), (_, few, length, _), (_, _, _, wide) = op.shapes(
        *(i.type for i in node.inputs[:3])
    )
    known = (
        isinstance(width, int)
        and isinstance(wide, int)
        and isinstance(many, int)
        and isinstance(few, int)
    )
    if not known or not few or target.size or bounds(length)[0] < 1:
        return False
    assert isinstance(wide, int)
    dtype = node.inputs[0].type.dtype.compute
    full = target.lanes(dtype)
    if full < 4 or vector(wide, full) < full // 4:
        return False
    scores = size_hint(batch) * size_hint(many) * size_hint(time) * size_hint(length) * dtype.nbytes
    return (
        size_hint(time) >= LEAST
        and size_hint(length) >= VECTORS * full
        and scores > target.hardware.l2_room // NEAR
    )


def vector(width: int, most: int) -> int:
    """The widest vector, with a power of two of lanes, that divides a width."""
    return min(most, width & -width)


def at_once(target: Target, lanes: int) -> int:
    """Vectors of scores that one vector of the language has the lanes of."""
    return min(VECTORS, max(1, target.most_lanes // lanes)) if target.most_lanes else VECTORS


def choose(h: AttentionProblem, target: Target) -> OnlineSoftmaxSchedule:
    """Blocks whose queries and sums take half the first-level cache, tiles of keys and values that
    take a quarter of the second-level cache.
    """
    target, dtype, (width, wide) = target.shipped, h.dtype.compute, h.widths
    rows, length, lanes = (
        max(1, size_hint(h.rows)),
        max(1, size_hint(h.length)),
        target.lanes(dtype),
    )
    tile = register_tile.choose(target, dtype, (1, rows), VECTORS * lanes, width)
    each = (width + wide) * dtype.nbytes
    near, close = target.hardware.l2_room // 4, target.l1_bytes // 4
    fits = min(near // each, close // (tile.rows[1] * dtype.nbytes))
    step = VECTORS * lanes
    keys = min(max(1, fits // step), -(-length // step)) * step
    tall = max(1, target.l1_bytes // 2 // (each * tile.rows[1]))
    wanted = -(-CHUNKS * target.threads // max(1, size_hint(volume(h.batch))))
    count = -(-rows // tile.rows[1])
    tiles = even_split(count, max(1, min(tall, count // wanted))).step
    threads = _threads(h, tiles * tile.rows[1], target)
    vectors = at_once(target, tile.lanes)
    return OnlineSoftmaxSchedule(tile, tiles, keys, vectors, vector(wide, lanes), threads)


def _threads(h: AttentionProblem, rows: int, target: Target) -> Threads:
    """The parallel loop over blocks of `rows` rows of all heads."""
    items = size_hint(volume((*h.batch, ceil_div(h.rows, rows))))
    flops = 2 * size_hint(volume(h.batch) * h.rows * h.length) * sum(h.widths)
    return shared(items, flops, h.dtype.compute, target)


def check(schedule: OnlineSoftmaxSchedule, h: AttentionProblem, target: Target) -> None:
    """Raises Misfit for a blocking that an attention cannot have."""
    tile, dtype, (width, wide) = schedule.tile, h.dtype.compute, h.widths
    check_tile(tile, schedule.tiles, h, target)
    check_scores(tile, schedule.keys, schedule.score_vectors)
    check_lanes("value_lanes", schedule.value_lanes, vector(wide, target.lanes(dtype)))
    kept = schedule.rows * (width + wide + tile.lanes) + tile.rows[1] * schedule.keys
    check_stack(kept * dtype.nbytes)
    check_threads(schedule.threads, 1)


def check_tile(tile: RegisterTile, tiles: int, h: AttentionProblem, target: Target) -> None:
    """Raises Misfit for a tile of scores that exceeds the registers or the queries."""
    rows = max(1, size_hint(h.rows))
    full = target.lanes(h.dtype.compute)
    if tile.lanes & (tile.lanes - 1) or tile.lanes > full:
        raise Misfit(("tile", "lanes"), f"it must be a power of two, at most {full} on this target")
    if tile.rows[0] != 1 or tile.rows[1] > rows:
        raise Misfit(("tile", "rows"), f"it must be 1 and at most the {rows} queries of a head")
    used = register_tile.registers(tile.rows[1], tile.vectors, target)
    if used > target.vector_registers and (tile.rows[1], tile.vectors) != (1, 1):
        raise Misfit(
            ("tile",), f"it takes {used} registers, and there are {target.vector_registers}"
        )
    if tiles > -(-rows // tile.rows[1]):
        raise Misfit(("tiles",), f"{rows} queries have {-(-rows // tile.rows[1])}")


def check_scores(tile: RegisterTile, keys: int, vectors: int) -> None:
    """Raises Misfit where keys are not whole panels, or not a multiple of the scores processed at
    once.
    """
    if vectors & (vectors - 1):
        raise Misfit(("score_vectors",), "it must be a power of two")
    wide = vectors * tile.lanes
    if keys % tile.width or keys % wide:
        words = f"{tile.width} keys of a panel and of {wide} scores at once"
        raise Misfit(("keys",), f"it must be a multiple of the {words}")


def check_lanes(name: str, lanes: int, most: int) -> None:
    """Raises Misfit for vectors that do not divide a width."""
    if lanes not in (1 << n for n in range(most.bit_length())):
        raise Misfit((name,), f"it must be a power of two, at most {most} for these widths")


def check_stack(kept: int) -> None:
    """Raises Misfit for blocks that exceed a thread's stack."""
    if kept > STACK:
        raise Misfit(("tiles",), f"a block and its scores take {kept:,} bytes of a stack")
