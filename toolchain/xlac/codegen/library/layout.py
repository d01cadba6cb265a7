"""A contraction as a batch of matrix products with strided operands, which libraries support."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.after import Parts, over_result
from xlac.codegen.library.refused import LibraryRefused
from xlac.ir.dims import Dim, Shape, bounds, size_hint, upper_bound
from xlac.ir.graph import Node
from xlac_sdk.libraries.product import Matrices, Products

LARGEST = 2**31 - 1  # rows, columns or matrices that libraries can index
LEFT, RIGHT, RESULT, ADDEND, BIAS = range(5)


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """Sizes and strides of the product, with the result's columns contiguous. If that requires the
    transposed product, `left` is the contraction's right operand.
    """

    count: Dim
    rows: Dim
    columns: Dim
    depth: Dim
    views: tuple[OperandView, OperandView]
    left: Matrices
    right: Matrices
    result: Matrices
    addend: Matrices | None


@dataclass(frozen=True, slots=True)
class _ProductAxis:
    """An axis of the product: its extent, and its strides in left, right, result,
    addend and bias.
    """

    extent: Dim
    steps: Shape


@dataclass(frozen=True, slots=True)
class LayoutWalk:
    """An axis of a contraction: its extent, and its stride in each operand."""

    extent: Dim
    left: Dim
    right: Dim


@dataclass(frozen=True, slots=True)
class Sums:
    """A contraction of two views: the axes of its result, in order, and the summed axes."""

    left: OperandView
    right: OperandView
    axes: tuple[LayoutWalk, ...]
    summed: tuple[LayoutWalk, ...]


def layout(after: Epilogue, sums: Sums, epilogue: Parts, library: Products) -> MatrixLayout:
    """The layout of a contraction. Raises LibraryRefused if it is not a batch of matrix products,
    or too small for a call to pay.
    """
    (output,) = after.group.outputs
    nothing = (0,) * len(sums.axes)
    others = (
        over_result(after, output, row_major(output.shape)),
        epilogue.addend.strides if epilogue.addend else nothing,
        epilogue.bias.strides if epilogue.bias else nothing,
    )
    axes = [
        _ProductAxis(walk.extent, (walk.left, walk.right, *steps))
        for walk, *steps in zip(sums.axes, *others, strict=True)
    ]
    depth = _one(
        _merged(
            _ProductAxis(walk.extent, (walk.left, walk.right, 0, 0, 0)) for walk in sums.summed
        ),
        "summed terms",
        library,
    )
    if bounds(depth.extent)[0] < 1:
        raise LibraryRefused("the number of products in a sum may be 0")
    return _arranged(axes, depth, (sums.left, sums.right), output, epilogue, library)


def _arranged(
    axes: list[_ProductAxis],
    depth: _ProductAxis,
    views: tuple[OperandView, OperandView],
    output: Node,
    epilogue: Parts,
    library: Products,
) -> MatrixLayout:
    batch, down, across = _sorted_axes(axes)
    rows, columns = _one(down, "rows", library), _one(across, "columns", library)
    if len(batch) > 1:
        raise LibraryRefused(
            f"{library.library} steps through a batch along one axis, and there are {len(batch)}"
        )
    count = batch[0] if batch else _ProductAxis(1, (0,) * 5)
    sides = (LEFT, RIGHT)
    if columns.steps[RESULT] != 1:
        rows, columns, sides, views = columns, rows, (RIGHT, LEFT), views[::-1]
    if max(upper_bound(axis.extent) for axis in (count, rows, columns, depth)) > LARGEST:
        raise LibraryRefused(f"a size is larger than {library.library} supports, {LARGEST:,}")

    def matrices(which: int, down: _ProductAxis, across: _ProductAxis, offset: Dim = 0) -> Matrices:
        steps = down.steps[which], across.steps[which]
        if 1 not in steps or any(isinstance(step, int) and step < 1 for step in steps):
            raise LibraryRefused(
                "neither rows nor columns of an operand are contiguous in memory, or they overlap"
            )
        dtype = library.operands if which in (LEFT, RIGHT) else output.type.dtype
        return Matrices(dtype, *steps, count.steps[which], offset)

    addend = None
    if epilogue.addend is not None:
        addend = matrices(ADDEND, rows, columns, epilogue.addend.offset)
        if count.extent != 1 and addend.batch == 0:
            raise LibraryRefused("one matrix is added to all products of a batch")
    if any(
        side.columns != 1 for side in (addend, matrices(RESULT, rows, columns)) if side is not None
    ):
        raise LibraryRefused(
            "the columns of the result, or of a term added to it, are not contiguous in memory"
        )
    if epilogue.bias is not None and (columns.steps[BIAS], rows.steps[BIAS], count.steps[BIAS]) != (
        1,
        0,
        0,
    ):
        raise LibraryRefused("the added term is neither a row added to all rows, nor a matrix")
    return MatrixLayout(
        count.extent,
        rows.extent,
        columns.extent,
        depth.extent,
        views,
        matrices(sides[0], rows, depth, views[0].offset),
        matrices(sides[1], depth, columns, views[1].offset),
        matrices(RESULT, rows, columns),
        addend,
    )


def _sorted_axes(
    axes: list[_ProductAxis],
) -> tuple[list[_ProductAxis], list[_ProductAxis], list[_ProductAxis]]:
    """The axes of the batch, of the rows and of the columns."""
    batch = _merged(axis for axis in axes if axis.steps[LEFT] != 0 and axis.steps[RIGHT] != 0)
    down = _merged(axis for axis in axes if axis.steps[RIGHT] == 0)
    across = _merged(axis for axis in axes if axis.steps[LEFT] == 0 and axis.steps[RIGHT] != 0)
    # axes that cannot be merged become batch axes, with stride 0 in the other operand
    for side in (down, across):
        if len(side) == 2 and not batch:
            batch.append(side.pop(0))
    return batch, down, across


def _merged(axes: Iterable[_ProductAxis]) -> list[_ProductAxis]:
    """Merges adjacent axes that every tensor traverses contiguously, and drops axes of
    one element.
    """
    merged: list[_ProductAxis] = []
    for axis in sorted(axes, key=lambda axis: -size_hint(axis.steps[RESULT] or axis.steps[LEFT])):
        if axis.extent == 1:
            continue
        if merged and all(
            a == b * axis.extent for a, b in zip(merged[-1].steps, axis.steps, strict=True)
        ):
            axis = _ProductAxis(merged.pop().extent * axis.extent, axis.steps)
        merged.append(axis)
    return merged


def _one(axes: list[_ProductAxis], what: str, library: Products) -> _ProductAxis:
    """The single axis that several were merged to. Raises LibraryRefused if they could not be
    merged, or it is too short.
    """
    if len(axes) > 1:
        raise LibraryRefused(f"the {what} are along {len(axes)} axes that cannot be merged")
    usual = size_hint(axes[0].extent) if axes else 1
    if not axes or usual < library.least:
        raise LibraryRefused(
            f"{usual} {what} are fewer than the {library.least} from which {library.library} is "
            "taken"
        )
    return axes[0]
