"""Classifies the loops of a contraction as outer, rows, columns and inner, and computes result
indices from their counters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xlac.codegen.core.contraction.contraction import (
    Axis,
    Contraction,
    Edge,
    OperandSource,
    accumulator,
    merge,
)
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, size_hint, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.tensor import regroup
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target

LowerContraction = Callable[
    [Group, Target, str, Decisions, Contraction, Epilogue, OperandView], list[KernelLaunch]
]
"""A device's kernels for a contraction and its epilogue; the view says where the right operand came
from.
"""


class ContractionLoop(NamedTuple):
    """Adjacent axes of the result covered by one loop; a step of the loop advances `step` elements
    of the last axis.
    """

    loop: Axis
    axes: tuple[int, ...]
    step: Dim = 1


def runs(axes: Sequence[Axis], first: int = 0) -> list[ContractionLoop]:
    """Result axes of more than one element, numbered from `first`, with adjacent ones merged where
    both operands traverse them contiguously.
    """
    merged_loops: list[ContractionLoop] = []
    for axis, loop in enumerate(axes, first):
        if loop.extent == 1:
            continue
        if merged_loops and len(merged := merge((merged_loops[-1].loop, loop))) == 1:
            merged_loops[-1] = ContractionLoop(merged[0], (*merged_loops[-1].axes, axis))
        else:
            merged_loops.append(ContractionLoop(loop, (axis,)))
    return merged_loops


def arranged(
    anchor: Node,
    after: Epilogue,
    around: Sequence[ContractionLoop],
    rows: Sequence[ContractionLoop],
    columns: ContractionLoop,
    summed: Sequence[Axis],
    left: OperandSource,
    right: OperandSource,
    borders: Sequence[Edge] = (),
    firsts: Mapping[int, int] | None = None,
) -> Contraction:
    """The contraction whose tiles cover `rows` (up to two of the loops `around`) and `columns`.
    Axes of the result start at `firsts`, or at 0.
    """
    shape = anchor.shape
    chosen = [r for r in around if r in rows]  # in the order of the result's axes
    outer = [r for r in around if r not in rows]
    while len(chosen) < 2:
        chosen.insert(0, ContractionLoop(Axis(1), ()))
    inner = merge(sorted(summed, key=lambda a: -abs(size_hint(a.left))))

    def place(counters: Sequence[Expr], row_counters: Sequence[Expr], column: Expr) -> Index:
        at: list[Expr] = [build.index((firsts or {}).get(a, 0)) for a in range(len(shape))]
        pairs = [
            *zip(outer, counters, strict=True),
            *zip(chosen, row_counters, strict=True),
            (columns, column),
        ]
        for run, counter in pairs:
            if len(run.axes) > 1 and not after.keeps(frozenset(run.axes)):
                parts = regroup.regroup(
                    (counter,), (run.loop.extent,), tuple(shape[a] for a in run.axes)
                )
                for axis, part in zip(run.axes, parts, strict=True):
                    at[axis] = part
            elif run.axes:
                at[run.axes[-1]] = build.add(at[run.axes[-1]], build.mul(counter, run.step))
        return tuple(at)

    return Contraction(
        tuple(r.loop for r in outer),
        (chosen[0].loop, chosen[1].loop),
        columns.loop,
        inner or (Axis(volume(tuple(a.extent for a in summed))),),
        left,
        right,
        accumulator(left.dtype, anchor.type.dtype),
        place,
        tuple(borders),
    )
