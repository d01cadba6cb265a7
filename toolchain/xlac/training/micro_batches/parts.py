"""Divides batches into micro-batches, so that a step needs the memory of one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac.ir.dims import Symbol
from xlac.ir.types import Type
from xlac.spec.schema.training import MOST_PARTS
from xlac_sdk.host.array_values import as_array
from xlac_sdk.source import Diagnostic, SourceError


class MicroBatches:
    """Divides batches into `number` micro-batches of equal size, the last one possibly smaller,
    along the axis of each input whose size is the open size `batch`. Raises SourceError where no
    input has such an axis.
    """

    def __init__(
        self, inputs: Mapping[str, Type], dims: Mapping[str, Symbol], batch: str, number: int
    ) -> None:
        self.number, self.symbol = number, dims.get(batch)
        self.axes = {
            name: axis
            for name, type in inputs.items()
            for axis, size in enumerate(type.shape)
            if self.symbol is not None and str(size) == batch
        }
        if number > 1 and not self.axes:
            problem = (
                f"there is no open size to cut batches by, and a step has {number} micro-batches"
            )
            raise SourceError(
                Diagnostic(
                    "XL6045", problem, hint=f"leave {batch or 'the batch'} open, or accumulate=1"
                )
            )

    def parts(self, arrays: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The micro-batches of a batch (arrays by input). Raises SourceError where a micro-batch
        would be outside the bounds of the open size; other mistakes are left to the program, which
        checks its inputs.
        """
        if self.number == 1:
            return [arrays]
        given = {n: as_array(arrays[n], None, n) for n in self.axes if n in arrays}
        rows = {a.shape[self.axes[n]] for n, a in given.items() if a.ndim > self.axes[n]}
        if len(given) < len(self.axes) or len(rows) != 1:
            return [arrays]
        (count,) = rows
        each = self._size(count)
        starts = range(0, max(count, 1), each)  # the program says what is wrong with no rows
        return [
            {**arrays, **{n: self._cut(a, n, s, s + each) for n, a in given.items()}}
            for s in starts
        ]

    def _size(self, rows: int) -> int:
        """The number of rows of each micro-batch but the last, given those of the batch."""
        assert self.symbol is not None
        symbol, by = self.symbol, self.symbol.multiple_of
        each = -(-max(rows, 1) // (self.number * by)) * by
        least = rows % each or each
        if not symbol.min <= least <= each <= symbol.max or least % by:
            problem = (
                f"{rows} rows make micro-batches of {each}, the last of {least}: "
                f"the size '{symbol.name}' is {symbol.min}..{symbol.max}"
            )
            more = f", a multiple of {by}" if by > 1 else ""
            raise SourceError(
                Diagnostic(
                    "XL6045",
                    f"{problem}{more}",
                    hint="another batch, or another number of micro-batches",
                )
            )
        return each

    def _cut(self, array: Any, name: str, start: int, stop: int) -> Any:
        return array[(slice(None),) * self.axes[name] + (slice(start, stop),)]


def calls(
    passes: Sequence[str], parts: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """The calls that make a step, as (entry, micro-batch): each of the entries `passes` takes all
    micro-batches, but the last one of the last is for the entry `step`.
    """
    *before, last = parts
    entries = [(kind, part) for kind in passes[:-1] for part in parts]
    entries += [(kind, part) for kind in passes[-1:] for part in before]
    return [*entries, ("step", last)]


def checked_number(number: Any) -> int:
    """A caller's `accumulate`. Raises SourceError unless it is an integer from 1 to MOST_PARTS."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_PARTS:
        raise SourceError(
            Diagnostic("XL6045", f"a step of {number!r} micro-batches", hint="accumulate=4")
        )
    return number
