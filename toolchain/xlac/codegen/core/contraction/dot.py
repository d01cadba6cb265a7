"""Dot products: any dimension numbers become the canonical contraction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.contraction.axes import LowerContraction, arranged, runs
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource
from xlac.codegen.core.contraction.tile_loops import ROWS, settled_columns, settled_rows
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.operands import DotOperandsSchedule
from xlac.fusion.group import Group
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class ChooseOperands:
    """For devices that may copy operands of a dot product first: `choose` takes the view of the
    left one, None if it is computed first; `check` raises Misfit for a schedule that the dot
    product cannot have.
    """

    choose: Callable[[Node, OperandView | None, Target], DotOperandsSchedule]
    check: Callable[[DotOperandsSchedule, Group], None]


def lower(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    contraction: LowerContraction,
    *,
    prologue: bool = False,
    choose_operands: ChooseOperands | None = None,
) -> LoweredGroup:
    """Launches for a dot product with its epilogue: kernels that compute operands, if any, then
    those of the contraction.

    With `prologue`, operands that are computed element by element are computed where the kernel
    reads them.
    """
    anchor = group.anchor
    after = epilogue.of(group, anchor)
    if after is None:

        def alone(part: Group) -> LoweredGroup:
            return lower(
                part,
                target,
                name,
                lower_part,
                contraction,
                prologue=prologue,
                choose_operands=choose_operands,
            )

        return operands.apart(group, anchor, alone, target, name, lower_part)
    launches: list[KernelLaunch] = []
    views: list[OperandView] = []
    for side, node in zip(("left", "right"), anchor.inputs, strict=True):
        view = operands.resolve(node, group, prologue=prologue)
        if side == "left" and choose_operands is not None:
            how = lower_part.decisions.settle(
                f"{name}_operands",
                choose_operands.choose(anchor, view, target),
                lambda asked: choose_operands.check(asked, group),
            ).left
            if how is not None:
                view, launches_of_side = operands.copy(
                    node, how, group, target, f"{name}_left", lower_part
                )
                launches += launches_of_side
        if view is None and side == "right":
            view = operands.folded(node, group)
        if view is None:
            view, launches_of_side = operands.materialize(
                node, group, target, f"{name}_{side}", lower_part
            )
            launches += launches_of_side
        views.append(view)
    c = canonical(anchor, after, views[0], views[1], name, lower_part.decisions)
    launches += contraction(group, target, name, lower_part.decisions, c, after, views[1])
    used = {v.value for v in views if isinstance(v.value, Node)}
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def canonical(
    anchor: Node,
    after: Epilogue,
    left: OperandView,
    right: OperandView,
    name: str,
    decisions: Decisions,
) -> Contraction:
    """The dot product with its axes classified as outer, rows, columns and inner, and merged where
    strides allow. Rows are the longest loops over the left operand alone and columns the innermost
    over the right one, or as asked for.
    """
    op = anchor.op
    assert isinstance(op, Dot)
    shape = anchor.shape
    sizes = anchor.inputs[0].shape
    free_left, free_right = op.free(len(left.strides), len(right.strides))
    pairs: list[tuple[Dim, Dim]] = [
        (left.strides[a], right.strides[b]) for a, b in zip(op.batch_lhs, op.batch_rhs, strict=True)
    ]
    pairs += [(left.strides[a], 0) for a in free_left] + [(0, right.strides[b]) for b in free_right]
    split = len(shape) - len(free_right)
    axes = [Axis(n, *p) for n, p in zip(shape, pairs, strict=True)]
    around, across = runs(axes[:split]), runs(axes[split:], split)
    columns, repeated = settled_columns(name, decisions, across)
    able = [number for number, run in enumerate(around) if not run.loop.right]
    longest = sorted(able, key=lambda number: -around[number].loop.usual)[:ROWS]
    rows = settled_rows(name, decisions, around, able, longest)
    summed = [
        Axis(sizes[a], left.strides[a], right.strides[b])
        for a, b in zip(op.contract_lhs, op.contract_rhs, strict=True)
    ]
    dtypes = (
        left.value.dtype if isinstance(left.value, Scratch) else anchor.inputs[0].type.dtype,
        anchor.inputs[1].type.dtype,
    )
    return arranged(
        anchor,
        after,
        [*around, *repeated],
        rows,
        columns,
        summed,
        OperandSource(left.value, dtypes[0], left.offset, left.computed),
        OperandSource(right.value, dtypes[1], right.offset, right.computed),
    )
