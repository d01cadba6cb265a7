"""Attention without its scores in memory: blocks of queries go over the keys, a tile of them at a
time.

Keys are packed once, turned around, as the right operand of any product. Then a block of queries of
one head multiplies them with a tile of keys, makes weights of the scores while they are in the
first cache, and adds the weighted values (`online_softmax.py`). Few queries or keys are left to three
kernels, as the definition says: their scores stay in a cache anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.attention_problem import AttentionProblem, attention_problem
from xlac.codegen.core.contraction import panel_kernel
from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import RegisterTile, even_split
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import CHUNKS
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.online_softmax import OnlineSoftmax
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import bounds, size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.nn.attention import Attention
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

VECTORS = 4  # of scores that are worked on at once
LEAST = 32  # queries of a head
NEAR = 8  # scores that take less than such a part of the second cache are near enough


@dataclass(frozen=True, slots=True)
class AttentionBlocks:
    """How an attention is cut: the register tile of scores, tiles of queries in a block, keys at a
    time, and the lanes of vectors along the width of values."""

    tile: RegisterTile
    tall: int
    keys: int
    lanes: int

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self.tall * self.tile.rows[1]

    @property
    def wide(self) -> int:
        """Scores that are worked on at once."""
        return VECTORS * self.tile.lanes


def takes(node: Node, target: Target) -> bool:
    """True for many queries and keys, of which a tile is full, whose values' width is one of
    vectors.
    """
    op = node.op
    assert isinstance(op, Attention)
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
    dtype = node.type.dtype.compute
    full = target.lanes(dtype)
    if full < 4 or vector(wide, full) < full // 4:
        return False
    scores = size_hint(batch) * size_hint(many) * size_hint(time) * size_hint(length) * dtype.nbytes
    return (
        size_hint(time) >= LEAST
        and size_hint(length) >= VECTORS * full
        and scores > target.l2_bytes // NEAR
    )


def vector(width: int, most: int) -> int:
    """The longest vectors, a power of two of lanes, that divide a width."""
    return min(most, width & -width)


def choose(h: AttentionProblem, target: Target) -> AttentionBlocks:
    """Blocks whose queries and sums take half the first cache, tiles of keys and values that take a
    quarter of the second.
    """
    dtype, (width, wide) = h.dtype.compute, h.widths
    rows, length, lanes = (
        max(1, size_hint(h.rows)),
        max(1, size_hint(h.length)),
        target.lanes(dtype),
    )
    tile = register_tile.choose(target, dtype, (1, rows), VECTORS * lanes, width)
    each = (width + wide) * dtype.nbytes
    fits = min(target.l2_bytes // 4 // each, target.l1_bytes // 4 // (tile.rows[1] * dtype.nbytes))
    step = VECTORS * lanes
    keys = min(max(1, fits // step), -(-length // step)) * step
    tall = max(1, target.l1_bytes // 2 // (each * tile.rows[1]))
    wanted = -(-CHUNKS * target.threads // max(1, size_hint(volume(h.batch))))
    count = -(-rows // tile.rows[1])
    tall = even_split(count, max(1, min(tall, count // wanted))).step
    return AttentionBlocks(tile, tall, keys, vector(wide, lanes))


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for an attention with what follows it: kernels that make operands, if any, one that
    packs the keys, its own.
    """

    anchor = group.anchor
    after = epilogue.of(group, anchor)
    if after is None:
        return operands.apart(
            group,
            anchor,
            lambda alone: lower(alone, target, name, lower_part),
            target,
            name,
            lower_part,
        )
    launches: list[KernelLaunch] = []
    views: list[OperandView] = []
    for side, node in zip("qkv", anchor.inputs, strict=False):
        found = operands.resolve(node, group)
        if found is None or (side == "v" and found.strides[-1] != 1):
            found, made = operands.materialize(node, group, target, f"{name}_{side}", lower_part)
            launches += made
        views.append(found)
    h = attention_problem(anchor, (views[0], views[1], views[2]))
    blocks = choose(h, target)
    packing_keys, panels = packed(
        group, target, f"{name}_keys", lower_part.decisions, h, blocks.tile, h.dtype.compute
    )
    elements = Elements(Builder(), group, target)
    OnlineSoftmax(elements, after, h, blocks, panels, target).write()
    used = {v.value for v in views if isinstance(v.value, Node)}
    launches += [packing_keys, elements.launch(name, cost.work(group))]
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def packed(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    h: AttentionProblem,
    tile: RegisterTile,
    dtype: DType,
) -> tuple[KernelLaunch, Panels]:
    """The keys of every head in panels, their columns."""
    keys = h.keys
    (step,), (along,) = keys.depth, keys.strides
    outer = tuple(Axis(n, 0, s) for n, s in zip(h.batch, keys.batch, strict=True))
    c = Contraction(
        outer,
        (Axis(1), Axis(h.rows)),
        Axis(h.length, 0, step),
        (Axis(h.widths[0], 1, along),),
        keys.source,
        keys.source,
        dtype,
        lambda outer, rows, column: h.place(outer, rows[1], column),
    )
    return panel_kernel.running(group, target, name, decisions, c, tile, dtype)
