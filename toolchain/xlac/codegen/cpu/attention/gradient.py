"""The gradient of attention, without storing its scores.

For each key head, blocks of queries iterate over the keys, a panel at a time: the weights are
recomputed from the maximum score and the sum of exponentials that the forward pass kept, and their
contributions are added to the cotangents: those of the block's queries locally, those of keys and
values in memory. Threads share the key heads, so no two threads add to the same sum.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.attention_problem import (
    AttentionProblem,
    attention_problem,
    of_keys,
    of_queries,
)
from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.attention.attention import packed
from xlac.codegen.cpu.attention.gradient_choice import check, choose
from xlac.codegen.cpu.attention.gradient_tiles import GradientTiles
from xlac.codegen.cpu.attention.gradient_weights import GradientOperands, KeySum
from xlac.fusion import cost
from xlac.fusion.group import Group, picked
from xlac.ir.dims import volume
from xlac.ir.types import Type
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

READ = {"q": 0, "k": 1, "v": 2, "y": 3, "ct": 6}


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches: kernels that compute operands, if any, two that pack keys and values, and the
    gradient itself.
    """
    anchor = group.anchor
    launches: list[KernelLaunch] = []
    views: dict[str, OperandView] = {}
    for side, place in READ.items():
        views[side], copies = operands.seen(
            anchor.inputs[place],
            group,
            target,
            f"{name}_{side}",
            lower_part,
            contiguous=side == "k",
        )
        launches += copies
    h = attention_problem(anchor, (views["q"], views["k"], views["v"]))
    fits = partial(check, h=h, target=target)
    schedule = lower_part.decisions.settle(name, choose(h, target), fits)
    panels = []
    for side, operand in (("keys", h.keys), ("values", h.values)):
        packing, found_panels = packed(
            group, target, f"{name}_{side}", lower_part.decisions, h, operand, schedule.tile
        )
        launches.append(packing)
        panels.append(found_panels)
    y, ct = (
        of_queries(views[n], anchor.inputs[READ[n]].type, h.widths[1], h.shared, h.time)
        for n in ("y", "ct")
    )
    elements = Elements(Builder(), group, target)
    sides = GradientOperands(y, ct, panels[0], panels[1], *_results(group, h))
    GradientTiles(elements, h, sides, schedule, target).write()
    launches.append(elements.launch(name, cost.work(group)))
    return LoweredGroup(tuple(launches))


def _results(
    group: Group, h: AttentionProblem
) -> tuple[MatrixOperand | None, KeySum | None, KeySum | None]:
    """The destinations of the cotangents of queries, keys and values that are needed. Sums in half
    precision are made in separate memory.
    """
    by_query: MatrixOperand | None = None
    sums: list[KeySum | None] = [None, None]
    for node, number in picked(group):
        size = h.widths[number == 2]
        lies = OperandView(node, row_major(node.shape))
        if number == 0:
            by_query = of_queries(lies, node.type, size, h.shared, h.time)
            continue
        result = of_keys(lies, node.type, size)
        place = result
        if h.dtype.is_half:
            shape = (*h.batch, h.length, size)
            scratch = Scratch(h.dtype.compute, volume(shape), "sums")
            place = of_keys(
                OperandView(scratch, row_major(shape)), Type(h.dtype.compute, shape), size
            )
        sums[number - 1] = KeySum(place, result)
    return by_query, sums[0], sums[1]
