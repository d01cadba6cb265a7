"""Fits data to the inputs of a step: checks shapes, dtypes and values, and converts numbers where
the conversion is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlac.ir.dims import Sym, bounds, symbols
from xlac.ir.types import Type
from xlac.training.data.column import ArrayColumn, Column, IndexRange, Rows, TrainingInput, fault
from xlac_sdk.dtypes import Array, DType

CHUNK_BYTES = 8 << 20  # bytes that are checked at once
Place = Callable[[int], str]
Progress = Callable[[str, int, int], object]
"""Receives progress: the activity, how many units are done, and of how many."""


def training_inputs(
    inputs: Mapping[str, Type], batch: str, ranges: Mapping[str, IndexRange]
) -> dict[str, TrainingInput]:
    """The inputs of a step, by name, whose batch axis is that of the open size `batch`, or where
    this is "" the leading axis of each. Raises SourceError where the size is no axis of its own,
    such as
    `2 * batch`.
    """
    inputs_by_name: dict[str, TrainingInput] = {}
    for name, type in inputs.items():
        axes = [
            axis
            for axis, dim in enumerate(type.shape)
            if any(symbol.name == batch for symbol in symbols(dim))
        ]
        whole = all(_is_symbol(type.shape[axis]) for axis in axes)
        if len(axes) > 1 or not whole:
            problem = (
                f"input '{name}' is {type}: the size '{batch}' must be one of its axes, unchanged"
            )
            raise fault("XL6309", problem)
        axis = axes[0] if axes else None if batch else 0
        inputs_by_name[name] = TrainingInput(name, type, axis, ranges.get(name))
    if not batch:
        leading = {one.type.shape[:1] for one in inputs_by_name.values()}
        if len(leading) != 1 or () in leading:
            problem = "no size of the inputs counts the rows of a batch"
            raise fault("XL6309", problem, "name it in the spec: train: {batch: NAME}")
    return inputs_by_name


def _is_symbol(dim: Any) -> bool:
    return (
        isinstance(dim, Sym)
        and len(dim.parts) == 1
        and len(dim.parts[0][0]) == 1
        and dim.parts[0][1] == 1
    )


class FittedColumn:
    """A column whose rows fit an input. Raises SourceError for a dtype or shape that does not."""

    def __init__(self, column: Column, one: TrainingInput) -> None:
        self.column, self.input = column, one
        self.rows, self.ready = column.rows, column.ready
        check_shape(column.shape, one, column.place(0))
        self._checks_bounds = not converts_exactly(column.dtype, one, column.place(0))

    def take(self, rows: Rows) -> Array:
        """Some rows as the array of the input. Checks their values unless `verify` did. Raises
        SourceError.
        """
        values = self.column.take(rows)
        if not self.ready:
            check_values(values, self.input, self._place(rows), self._checks_bounds)
        return arranged(values, self.input)

    def _place(self, rows: Rows) -> Place:
        if isinstance(rows, slice):
            return lambda at: self.column.place(rows.start + at)
        return lambda at: self.column.place(int(rows[at]))

    def verify(self, progress: Progress, consume: Callable[[Array], object]) -> None:
        """Checks all values, CHUNK_BYTES at a time, and passes them to `consume`. Raises
        SourceError.
        """
        row = max(1, self.column.dtype.itemsize * int(np.prod(self.column.shape, dtype=np.int64)))
        step = max(1, CHUNK_BYTES // row)
        for start in range(0, self.rows, step):
            span = slice(start, min(start + step, self.rows))
            values = self.column.take(span)
            check_values(values, self.input, self._place(span), self._checks_bounds)
            consume(values)
            progress(f"checking {self.input.name}", span.stop, self.rows)


def arranged(rows: Array, one: TrainingInput) -> Array:
    """Rows [n, …] as the array of an input: its dtype, its batch axis, C-contiguous, a copy."""
    if one.axis is None:
        rows = rows[0]
    elif one.axis:
        rows = np.moveaxis(rows, 0, one.axis)
    # aligned, and no view of a mapped file, which could change under a step
    return np.array(rows, one.type.dtype.numpy, order="C", copy=True, subok=False)


def check_shape(shape: tuple[int, ...], one: TrainingInput, place: str, hint: str = "") -> None:
    """Raises SourceError where a row's shape does not fit an input; `place` and `hint` are for the
    message.
    """
    if one.takes(shape):
        return
    wanted = ", ".join(map(_size, one.row.shape))
    problem = (
        f"{place}: a row for input '{one.name}' is [{', '.join(map(str, shape))}], "
        f"and it takes [{wanted}]"
    )
    raise fault("XL6304", problem, hint)


def _size(dim: Any) -> str:
    low, high = bounds(dim)
    return str(dim) if low == high else f"{dim} in {low}..{high}"


def converts_exactly(dtype: np.dtype[Any], one: TrainingInput, place: str) -> bool:
    """Whether the input's dtype holds every number of a dtype; False where it depends on the number
    (integers). Raises SourceError where numbers would be rounded.
    """
    wanted = one.type.dtype
    have = dtype.newbyteorder("=")
    if np.can_cast(have, wanted.numpy, "safe"):
        return True
    if have.kind in "iu" and (wanted.is_integer or wanted.is_float or wanted is DType.BOOL):
        return False
    problem = f"{place}: the numbers for input '{one.name}' are {dtype}, and it takes {wanted}"
    hint = f"numbers are not rounded silently: store them as {wanted.numpy}"
    if have.kind not in "biuf":
        hint = "training data are numbers"
    raise fault("XL6303", problem, hint)


def check_values(rows: Array, one: TrainingInput, place: Place, checks_bounds: bool) -> None:
    """Raises SourceError for the first row with NaN, with a number out of the input's range, or, if
    `checks_bounds`, with one that the input's dtype does not hold exactly.
    """
    if rows.dtype.kind not in "biu":
        bad = np.isnan(rows)
        if bad.any():
            at = np.argwhere(bad)[0]
            where = f" at {at[1:].tolist()}" if len(at) > 1 else ""
            raise fault("XL6306", f"{place(int(at[0]))}: input '{one.name}' is NaN{where}")
    if checks_bounds and rows.size:
        dtype = one.type.dtype
        if dtype.is_integer:
            ends = np.iinfo(dtype.numpy)
            _check_range(
                rows, IndexRange(int(ends.min), int(ends.max)), one, place, f"{dtype} holds"
            )
        elif dtype is DType.BOOL:
            _check_range(rows, IndexRange(0, 1), one, place, "bool holds")
        else:
            most = 1 << {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}[dtype]
            _check_range(rows, IndexRange(-most, most), one, place, f"{dtype} holds all of")
    if one.range is not None and rows.size:
        _check_range(rows, one.range, one, place, "its range is")


def _check_range(
    rows: Array, held: IndexRange, one: TrainingInput, place: Place, what: str
) -> None:
    at = held.first_outside(rows)
    if at is None:
        return
    where = f" at {list(at[1:])}" if len(at) > 1 else ""
    problem = f"{place(at[0])}: input '{one.name}' is {rows[at]}{where}, and {what} {held}"
    raise fault("XL6307", problem)


def array_column(array: Any, name: str) -> ArrayColumn:
    """An array given by a Python program, as a column."""
    return ArrayColumn(np.asarray(array), f"'{name}'")
