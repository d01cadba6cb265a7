"""Builds an `attention` node from scores and values with axes in any order: identifies batch,
heads, time and mask.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.nn.attention import Attention
from xlac.ops.reduction.contraction import Dot
from xlac.ops.scalar.convert import Cast
from xlac.passes.attention.axis_factors import Axes, Factors, Ints
from xlac.passes.attention.scores import Mask, Scores, is_causal
from xlac_sdk.dtypes import DType

Placed = tuple[Node, Axes]


@dataclass(frozen=True, slots=True)
class AttentionAxes:
    """The roles of an attention's axes, as factors; `group` are query heads that share a key
    head.
    """

    batch: Ints
    heads: Ints
    group: Ints
    time: Ints
    keys: Ints

    @property
    def rows(self) -> tuple[Ints, Ints, Ints]:
        """Batch, query heads, time."""
        return self.batch, (*self.heads, *self.group), self.time


@dataclass(frozen=True, slots=True)
class Masked:
    """The attributes and the operand of `attention` that masks are converted to."""

    causal: bool
    hidden: float | None
    operands: tuple[Node, ...]


def operands(factors: Factors, product: Node, result: Axes) -> tuple[Axes, Axes]:
    """The axes of the operands of a product, given those of its result."""
    assert isinstance(product.op, Dot)
    op, (lhs, rhs) = product.op, product.inputs
    summed = factors.of(tuple(lhs.shape[a] for a in op.contract_lhs))
    batch, own = result[: len(op.batch_lhs)], result[len(op.batch_lhs) :]
    left, right = op.free(lhs.type.rank, rhs.type.rank)
    axes_of_operands = []
    for x, orders in (
        (lhs, (op.batch_lhs, op.contract_lhs, left)),
        (rhs, (op.batch_rhs, op.contract_rhs, right)),
    ):
        free = own[: len(left)] if x is lhs else own[len(left) :]
        axes = {
            a: axis
            for order, given in zip(orders, (batch, summed, free), strict=True)
            for a, axis in zip(order, given, strict=True)
        }
        axes_of_operands.append(tuple(axes[a] for a in range(x.type.rank)))
    return axes_of_operands[0], axes_of_operands[1]


def attention(
    factors: Factors, known: Scores, keys: Ints, values: Placed, result: Axes
) -> tuple[Node, Node] | None:
    """The `attention` node of scores and values, and its result with the axes of the product's;
    None where `attention` cannot express it.
    """
    op = known.dot.op
    assert isinstance(op, Dot)
    pair = list(zip(known.dot.inputs, operands(factors, known.dot, known.axes), strict=True))
    free = op.free(pair[0][0].type.rank, pair[1][0].type.rank)
    own = [
        factors.flat(*(axes[a] for a in places))
        for (_, axes), places in zip(pair, free, strict=True)
    ]
    keys = factors.flat(keys)
    side = next((number for number in (1, 0) if sorted(own[number]) == sorted(keys)), None)
    if side is None:
        return None
    q, k = pair[1 - side], factors.unrepeated(*pair[side])
    values = factors.unrepeated(*values)
    masks = [
        replace(m, node=node, axes=axes)
        for m in known.masks
        for node, axes in [factors.unrepeated(m.node, m.axes)]
    ]
    width = factors.flat(*(pair[0][1][a] for a in op.contract_lhs))
    keys = factors.flat(keys)  # what is below repeats may have axes of several factors
    room = placed(factors, known, keys, {*factors.flat(*k[1], *values[1])}, masks)
    mask = None if room is None else masked(factors, masks, room, q[0].type.dtype)
    if room is None or mask is None or not isinstance(factors.size(width), int):
        return None
    wide = tuple(f for f in factors.flat(*result) if f not in factors.flat(*known.axes))
    given = (
        factors.arranged(*q, (*room.rows, width)),
        factors.arranged(*k, (room.batch, room.heads, room.keys, width)),
        factors.arranged(*values, (room.batch, room.heads, room.keys, wide)),
        *mask.operands,
    )
    scale = 1.0 if known.scale is None else known.scale
    attention_node = Node.of(Attention(causal=mask.causal, scale=scale, hidden=mask.hidden), *given)
    return attention_node, factors.arranged(attention_node, (*room.rows, wide), result)


def placed(
    factors: Factors, known: Scores, keys: Ints, held: Collection[int], masks: Sequence[Mask]
) -> AttentionAxes | None:
    """The roles of the axes of scores: batch and key heads are those that keys or values have
    (`held`). Of several query axes, time is the one that masks depend on, or else the last.
    """
    order = [f for f in factors.flat(*known.axes) if f not in keys]
    batch, rows = [f for f in order if f in held], [f for f in order if f not in held]
    masked_rows = [f for f in rows if any(f in factors.flat(*m.axes) for m in masks)]
    time = masked_rows if len(masked_rows) == 1 else rows[-1:]
    group = tuple(f for f in rows if f not in time)
    if not isinstance(factors.size(group), int):
        return None
    shares_all = len(batch) == 1 and group  # then they are the batch, with a single key head
    heads = [] if shares_all else [f for f in batch[-1:] if isinstance(factors.sizes[f], int)]
    return AttentionAxes(
        tuple(f for f in batch if f not in heads), tuple(heads), group, tuple(time), keys
    )


def masked(
    factors: Factors, masks: Sequence[Mask], room: AttentionAxes, dtype: DType
) -> Masked | None:
    """Masks, the last first, as attributes and operand of `attention`, which can add one mask to
    the scores and then hide some of them.
    """
    hiding = [m for m in masks if m.hidden is not None]
    numbers = {m.hidden for m in hiding if m.hidden is not None}
    added = masks[len(hiding) :]
    if (
        any(m.hidden is not None for m in added)
        or len(added) > 1
        or len(numbers) > 1
        or any(math.isnan(n) for n in numbers)
    ):
        return None
    hidden = next((n for n in numbers if n != float(np.finfo(dtype.compute.numpy).min)), None)
    gap = factors.size(room.keys) - factors.size(room.time)
    ahead = [
        m
        for m in hiding
        if hidden in (None, -math.inf) and is_causal(m, factors, room.time, room.keys, gap)
    ]
    rest = [m for m in masks if m not in ahead]
    if added and rest != list(added):
        return None
    shape = (*room.rows, room.keys)
    masks_arranged = [factors.arranged(m.node, m.axes, shape, stretch=False) for m in rest]
    if added:
        (mask,) = masks_arranged
        if isinstance(mask.op, Cast) and mask.type.dtype is dtype.compute:
            (mask,) = mask.inputs
        return Masked(bool(ahead), hidden, (mask,)) if mask.type.dtype is dtype else None
    while len(masks_arranged) > 1:
        masks_arranged.append(build.apply1("and", masks_arranged.pop(), masks_arranged.pop()))
    return Masked(bool(ahead), hidden, tuple(masks_arranged))
