"""Dot products: any dimension numbers become one canonical contraction, which is then tiled."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import view
from xlac.ops.contraction import Dot
from xlac.schedule import contract, epilogue, operands
from xlac.schedule.contraction import Axis, Contraction, Source, accumulator, merge
from xlac.schedule.epilogue import Epilogue
from xlac.schedule.group import Group, Launching, Scheduled
from xlac.schedule.operands import View
from xlac_sdk import build
from xlac_sdk.kernel import Expr
from xlac_sdk.target import Target


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """Launches for a contraction with what follows it: kernels that make operands, if any, then the product."""
    hero = group.hero
    after = epilogue.of(group, hero)
    if after is None:
        return operands.apart(group, hero, lambda alone: schedule(alone, target, name), target, name)
    launches: list[Launching] = []
    views: list[View] = []
    for side, node in zip(("left", "right"), hero.inputs, strict=True):
        found = operands.resolve(node, group)
        if found is None and side == "right":
            found = operands.folded(node, group)
        if found is None:
            found, made = operands.materialize(node, group, target, f"{name}_{side}")
            launches += made
        views.append(found)
    c = canonical(hero, after, views[0], views[1])
    launches += contract.launches(group, target, name, c, after, views[1])
    used = {v.value for v in views if isinstance(v.value, Node)}
    return Scheduled(tuple(launches), epilogue.in_place(after, used))


class _Run(NamedTuple):
    """Axes of the result that one loop crosses."""

    loop: Axis
    axes: tuple[int, ...]


def canonical(hero: Node, after: Epilogue, left: View, right: View) -> Contraction:
    """The dot product with its axes sorted into outer, rows, columns and inner, and merged where strides allow."""
    op = hero.op
    assert isinstance(op, Dot)
    shape = static(hero.shape)
    sizes = static(hero.inputs[0].shape)
    free_left, free_right = op.free(len(left.strides), len(right.strides))
    pairs = [(left.strides[a], right.strides[b]) for a, b in zip(op.batch_lhs, op.batch_rhs, strict=True)]
    pairs += [(left.strides[a], 0) for a in free_left] + [(0, right.strides[b]) for b in free_right]
    split = len(shape) - len(free_right)
    around = _runs(shape, pairs, range(split))
    across = _runs(shape, pairs, range(split, len(shape)))
    columns = across.pop() if across else _Run(Axis(1), ())
    rows = sorted((r for r in around if not r.loop.right), key=lambda r: -r.loop.extent)[:2]
    rows = [r for r in around if r in rows]  # in the order of the result
    outer = [r for r in (*around, *across) if r not in rows]
    while len(rows) < 2:
        rows.insert(0, _Run(Axis(1), ()))
    summed = [
        Axis(sizes[a], left.strides[a], right.strides[b]) for a, b in zip(op.contract_lhs, op.contract_rhs, strict=True)
    ]
    inner = merge(sorted(summed, key=lambda a: -abs(a.left)))

    def place(around: Sequence[Expr], counters: Sequence[Expr], column: Expr) -> Index:
        at: list[Expr] = [build.index(0)] * len(shape)
        found = [*zip(outer, around, strict=True), *zip(rows, counters, strict=True), (columns, column)]
        for run, counter in found:
            if len(run.axes) > 1 and not after.keeps(frozenset(run.axes)):
                parts = view.regroup((counter,), (run.loop.extent,), tuple(shape[a] for a in run.axes))
                for axis, part in zip(run.axes, parts, strict=True):
                    at[axis] = part
            elif run.axes:
                at[run.axes[-1]] = counter
        return tuple(at)

    assert hero.inputs[0].type.dtype is hero.inputs[1].type.dtype
    dtype = accumulator(hero.inputs[0].type.dtype, hero.type.dtype)
    return Contraction(
        tuple(r.loop for r in outer), (rows[0].loop, rows[1].loop), columns.loop, inner or (Axis(prod(a.extent for a in summed)),),
        Source(left.value, hero.inputs[0].type.dtype, left.offset),
        Source(right.value, hero.inputs[1].type.dtype, right.offset), dtype, place,
    )  # fmt: skip


def _runs(shape: Sequence[int], strides: Sequence[tuple[int, int]], axes: Sequence[int]) -> list[_Run]:
    """Result axes of more than one element, neighbours merged where both operands cross them as one."""
    found: list[_Run] = []
    for axis in axes:
        if shape[axis] == 1:
            continue
        loop = Axis(shape[axis], *strides[axis])
        if found and len(merged := merge((found[-1].loop, loop))) == 1:
            found[-1] = _Run(merged[0], (*found[-1].axes, axis))
        else:
            found.append(_Run(loop, (axis,)))
    return found
