"""Chooses whether the gradient of attention is one kernel on a CPU, and its blocking."""

from __future__ import annotations

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.tiling import even_split
from xlac.codegen.core.loop_nest import check_threads
from xlac.codegen.cpu.attention import choose as forward
from xlac.codegen.cpu.attention.choose import VECTORS, at_once, vector
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.threads_pay import shared
from xlac.codegen.schedules.attention import AttentionGradientSchedule
from xlac.ir.dims import size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.nn.attention import MaskedHeads
from xlac_sdk.target import Target

ROWS = 64  # queries of a block, about: so many products per access to a sum in memory


def takes(node: Node, target: Target) -> bool:
    """Whether the attention itself is one kernel, and the width of queries is a multiple of a
    vector.
    """
    if not forward.takes(node, target):
        return False
    op = node.op
    assert isinstance(op, MaskedHeads)
    (_, _, _, width), *_ = op.shapes(*(i.type for i in node.inputs[:3]))
    full = target.lanes(node.inputs[0].type.dtype.compute)
    return isinstance(width, int) and vector(width, full) >= full // 4


def choose(h: AttentionProblem, target: Target) -> AttentionGradientSchedule:
    """Tiles of scores of a panel of keys, with enough queries that sums in memory are cheap."""
    dtype, (width, wide) = h.dtype.compute, h.widths
    rows, lanes = max(1, size_hint(h.rows)), target.lanes(h.dtype.compute)
    tile = register_tile.choose(target.shipped, dtype, (1, rows), VECTORS * lanes, width)
    tall = even_split(-(-rows // tile.rows[1]), max(1, ROWS // tile.rows[1])).step
    items = size_hint(volume(h.batch))
    flops = 10 * items * size_hint(h.rows * h.length) * max(h.widths)
    return AttentionGradientSchedule(
        tile,
        tall,
        VECTORS * lanes,
        at_once(target, tile.lanes),
        vector(width, lanes),
        vector(wide, lanes),
        shared(items, flops, dtype, target),
    )


def check(schedule: AttentionGradientSchedule, h: AttentionProblem, target: Target) -> None:
    """Raises Misfit for blocks that the derivative of an attention cannot be cut into."""
    dtype, (width, wide) = h.dtype.compute, h.widths
    full = target.lanes(dtype)
    forward.check_tile(schedule.tile, schedule.tiles, h, target)
    forward.check_scores(schedule.tile, schedule.keys, schedule.score_vectors)
    for name, size in (("query_lanes", width), ("value_lanes", wide)):
        forward.check_lanes(name, getattr(schedule, name), vector(size, full))
    kept = schedule.rows * (2 * width + wide + 3 + 2 * schedule.keys)
    forward.check_stack(kept * dtype.nbytes)
    check_threads(schedule.threads, 1)
