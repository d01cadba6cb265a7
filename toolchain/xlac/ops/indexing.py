"""Indexing as Python writes it: `x[1:, None, indices]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.ir.dims import Dim, Sym
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops.forms import python_slice
from xlac.ops.nodes import add, compare, reshape, select, slice_, take
from xlac.ops.tensor.leaf import Const
from xlac.ops.values import cast
from xlac_sdk.dtypes import DType


def index(x: Node, key: Any) -> Node:
    """`x[key]`: integers, slices, None, an ellipsis, and one integer tensor (negative entries count
    from the end).

    Raises ShapeError whose `operand` is the number of the entry at fault.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > x.type.rank or entries.count(Ellipsis) > 1:
        raise ShapeError(f"{used} indices do not fit {x.type}")
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    spot = entries.index(Ellipsis)
    entries[spot : spot + 1] = [slice(None)] * (x.type.rank - used)
    return _shaped(x, entries)


def _shaped(x: Node, entries: Sequence[Any]) -> Node:
    first: list[Dim] = []
    last: list[Dim] = []
    steps: list[int] = []
    tensors: list[tuple[int, Node]] = []  # axis of x, indices
    axis = 0
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        size = x.shape[axis]
        if isinstance(entry, slice):
            start, stop, step = python_slice(entry.start, entry.stop, entry.step or 1, size)
        elif isinstance(entry, Node) and entry.type.dtype.is_integer:
            _check_known(entry, size, f"axis {axis} of {x.type}", number)
            tensors.append((axis, entry))
            start, stop, step = 0, size, 1
        elif isinstance(entry, int | Sym):
            if isinstance(entry, int) and isinstance(size, int) and not -size <= entry < size:
                raise ShapeError(
                    f"index {entry} is out of range for axis {axis} of {x.type}", operand=number
                )
            start = entry if isinstance(entry, Sym) or entry >= 0 else size + entry
            stop, step = start + 1, 1
        else:
            raise ShapeError(f"cannot index with {entry}", operand=number)
        first, last, steps, axis = [*first, start], [*last, stop], [*steps, step], axis + 1
    if len(tensors) > 1:
        raise ShapeError("only one index may be a tensor; use gather for more")
    part = slice_(x, first, last, steps)
    for axis, indices in tensors:
        part = take(part, from_end(indices, part.shape[axis]), axis)
    shape: list[Dim] = []
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
        elif isinstance(entry, Node):
            shape += part.shape[axis : axis + entry.type.rank]
            axis += entry.type.rank
        else:
            shape += [part.shape[axis]] if isinstance(entry, slice) else []
            axis += 1
    return reshape(part, shape)


def from_end(indices: Node, size: Dim) -> Node:
    """Indices with negative entries, which count from the end, converted to nonnegative ones."""
    if not indices.type.dtype.is_signed:
        return indices
    if not isinstance(size, int):
        raise ShapeError(f"indices into an axis of symbolic size {size} must be unsigned")
    wide = cast(indices, DType.I64)
    return select(compare(wide, "lt", 0), add(wide, size), wide)


def _check_known(indices: Node, size: Dim, what: str, number: int) -> None:
    """Raises ShapeError for indices that are known, and outside of an axis."""
    if isinstance(indices.op, Const) and isinstance(size, int):
        for entry in indices.op.value.flat:
            if not -size <= entry < size:
                raise ShapeError(f"index {entry} is out of range for {what}", operand=number)
