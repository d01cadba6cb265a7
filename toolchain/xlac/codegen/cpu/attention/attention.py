"""Attention without storing its scores: blocks of queries iterate over tiles of keys.

Keys are packed once, transposed, as the right operand of a matrix product. Then a block of queries
of one head multiplies them with a tile of keys, computes softmax weights while the scores are in
the first-level cache, and adds the weighted values (`online_softmax.py`). For few queries or keys
the composite is expanded to three kernels, since the scores stay in a cache anyway.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.attention_problem import AttentionProblem, attention_problem
from xlac.codegen.core.contraction import panel_kernel
from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.attention.choose import check, choose
from xlac.codegen.cpu.attention.online_softmax import OnlineSoftmax
from xlac.codegen.cpu.attention.softmax_rows import SumsStore
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for an attention with its epilogue: kernels that compute operands, if any, one that
    packs the keys, and the attention itself.
    """

    anchor = group.anchor
    kept = SumsStore(group) if len(anchor.results) > 1 else None
    after = kept or epilogue.of(group, anchor)
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
        view, copies = operands.seen(
            node, group, target, f"{name}_{side}", lower_part, contiguous=side == "v"
        )
        launches += copies
        views.append(view)
    h = attention_problem(anchor, (views[0], views[1], views[2]))
    fits = partial(check, h=h, target=target)
    schedule = lower_part.decisions.settle(name, choose(h, target), fits)
    packing_keys, panels = packed(
        group, target, f"{name}_keys", lower_part.decisions, h, h.keys, schedule.tile
    )
    elements = Elements(Builder(), group, target)
    OnlineSoftmax(elements, after, h, schedule, panels, target).write()
    used = {v.value for v in views if isinstance(v.value, Node)}
    launches += [packing_keys, elements.launch(name, cost.work(group))]
    in_place = epilogue.in_place(after, used) if isinstance(after, epilogue.Epilogue) else ()
    return LoweredGroup(tuple(launches), in_place)


def packed(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    h: AttentionProblem,
    keys: MatrixOperand,
    tile: RegisterTile,
) -> tuple[KernelLaunch, Panels]:
    """The keys, or values, of every head, packed in panels of their columns."""
    (step,), (along,), dtype = keys.depth, keys.strides, h.dtype.compute
    outer = tuple(Axis(n, 0, s) for n, s in zip(h.batch, keys.batch, strict=True))
    c = Contraction(
        outer,
        (Axis(1), Axis(h.rows)),
        Axis(h.length, 0, step),
        (Axis(keys.size, 1, along),),
        keys.source,
        keys.source,
        dtype,
        lambda outer, rows, column: h.place(outer, rows[1], column),
    )
    return panel_kernel.running(group, target, name, decisions, c, tile, dtype)
