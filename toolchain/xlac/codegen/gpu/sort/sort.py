"""Sorting on a GPU: lines along the axis, by the stable merge sort of `merge_sort.py`."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.sort import goes_before, kept_only
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu.sort.merge_sort import MergeSort
from xlac.fusion.group import Group, picked
from xlac.ir.dims import volume
from xlac.ir.op import Index
from xlac.ops.reduction.order import Sort
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch for axes of up to a tile, and one more each time their length doubles."""
    anchor, op = group.anchor, group.anchor.op
    assert isinstance(op, Sort)
    shape, axis = anchor.inputs[0].shape, op.axis
    strings = volume(tuple(n for a, n in enumerate(shape) if a != axis))

    def at(string: Expr, place: Expr) -> Index:
        index: list[Expr] = [place] * len(shape)
        for a in reversed([a for a in range(len(shape)) if a != axis]):
            index[a] = build.mod(string, shape[a])
            string = build.div(string, shape[a])
        return tuple(index)

    def read(elements: Elements, string: Expr, place: Expr) -> list[Expr]:
        index = at(string, place)
        return [elements.at(x, index) for x in anchor.inputs]

    def write(elements: Elements, string: Expr, place: Expr, values: Sequence[Expr]) -> None:
        index = at(string, place)
        with kept_only(elements, op, place):
            for node, number in picked(group):
                elements.store(node, index, values[number])

    def before(elements: Elements, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        return goes_before(elements, op, a, b)

    dtypes = [t.dtype for t in anchor.results]
    compared = len(dtypes) if op.body is not None else op.keys
    sorter = MergeSort(group, target, strings, shape[axis], dtypes, compared, before, read, write)
    return LoweredGroup(tuple(sorter.launches(name, lower_part.decisions)))
