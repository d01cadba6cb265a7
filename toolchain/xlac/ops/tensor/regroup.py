"""How a reshape divides and joins axes: what an index before it is of one after it."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim, Shape, size_hint
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr


def regroup(at: Index, new: Shape, old: Shape) -> Index:
    """The index in shape `old` of the element at `at` in shape `new`, both row-major.

    Runs of axes with equal products are mapped apart, so that axes which match keep their own
    counter and only those that were split or merged need divisions.
    """
    index: list[Expr] = []
    i = j = 0
    while i < len(new) or j < len(old):
        first, second = i, j
        left: Dim = 1
        right: Dim = 1
        # grow the smaller side until the products meet; unit axes join whatever is open
        while True:
            if (
                left == right
                and (i > first or j > second)
                and (left not in (0, 1) or (i == len(new) and j == len(old)))
            ):
                break
            if (
                left == right
                and i < len(new)
                and j < len(old)
                and first == i
                and second == j
                and new[i] == old[j]
            ):
                i, j, left, right = i + 1, j + 1, left * new[i], right * old[j]
                break
            if i < len(new) and (size_hint(left) <= size_hint(right) or j == len(old)):
                left, i = left * new[i], i + 1
            elif j < len(old):
                right, j = right * old[j], j + 1
            else:
                break
        index += _split(_linear(at[first:i], new[first:i]), old[second:j])
    return tuple(index)


def _linear(at: Sequence[Expr], shape: Shape) -> Expr:
    position: Expr = build.index(0)
    for counter, size in zip(at, shape, strict=True):
        position = build.add(build.mul(position, size), counter) if size != 1 else position
    return position


def _split(position: Expr, shape: Shape) -> list[Expr]:
    counters: list[Expr] = []
    kept = [a for a, size in enumerate(shape) if size not in (0, 1)]
    for axis in reversed(range(len(shape))):
        if shape[axis] in (0, 1):
            counters.append(build.index(0))
        elif axis == kept[0]:
            counters.append(position)
        else:
            counters.append(build.mod(position, shape[axis]))
            position = build.div(position, shape[axis])
    return counters[::-1]
