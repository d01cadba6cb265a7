"""Attention in one kernel: scores are never written to memory, and the softmax is
computed online.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.attention_problem import AttentionProblem, attention_problem
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.gpu.attention import (
    decode_split,
    flash_attention,
    flash_choice,
    flash_tile,
    split_kv_decode,
)
from xlac.codegen.schedules.gpu.attention import (
    GPU_ATTENTION,
    GpuAttentionSchedule,
    SplitKvDecodeSchedule,
)
from xlac.fusion.group import Group
from xlac.ir.dims import bounds, size_hint
from xlac.ir.graph import Node
from xlac.ops.nn.attention import Attention
from xlac_sdk.target import Target


def takes(node: Node, target: Target) -> bool:
    """Whether a kernel here supports an attention; others are expanded."""
    op = node.op
    assert isinstance(op, Attention)
    (_, many, time, width), (_, few, length, _), (_, _, _, wide) = op.shapes(
        *(i.type for i in node.inputs[:3])
    )
    assert isinstance(width, int)
    if (
        not isinstance(wide, int)
        or not isinstance(many, int)
        or not isinstance(few, int)
        or few == 0
        or bounds(length)[0] < 1
    ):
        return False
    rows = size_hint(time) * (many // few)
    dtype = node.type.dtype
    return decode_split.takes(rows, (width, wide), dtype, target) or flash_tile.takes(
        (width, wide), dtype, target
    )


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for an attention with its epilogue: kernels that compute operands, if any, then the
    attention.
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
    views = []
    for side, node in zip("qkv", anchor.inputs, strict=False):
        view, copies = operands.seen(node, group, target, f"{name}_{side}", lower_part)
        launches += copies
        views.append(view)
    h = attention_problem(anchor, (views[0], views[1], views[2]))
    few = decode_split.takes(size_hint(h.rows), h.widths, h.dtype, target)
    schedule: GpuAttentionSchedule = lower_part.decisions.settle(
        name,
        decode_split.choose(h, target) if few else flash_choice.choose(h, target),
        partial(_check, h=h, target=target),
        GPU_ATTENTION,
    )
    if isinstance(schedule, SplitKvDecodeSchedule):
        launches += split_kv_decode.launches(group, target, name, h, after, schedule)
    else:
        launches += flash_attention.launches(group, target, name, h, after, schedule)
    used = {v.value for v in views if isinstance(v.value, Node)}
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def _check(schedule: GpuAttentionSchedule, h: AttentionProblem, target: Target) -> None:
    if isinstance(schedule, SplitKvDecodeSchedule):
        decode_split.check(schedule, h, target)
    else:
        flash_choice.check(schedule, h, target)
