"""The loops around reductions as rows of vectors: how many rows there are, and vectors of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.ir.dims import Dim, volume


@dataclass(frozen=True, slots=True)
class RowSpace:
    """Vectors of `lanes` elements along a loop, or single elements.

    Where that loop is reduced, vectors are those of a row, and there is a row for each result. Where
    it is not, a row is a vector of results, and its vectors are the elements that are combined.
    """

    space: ReductionSpace
    loops: Sequence[Run]
    vector: Run | None
    lanes: int
    by_row: bool

    @property
    def reduced(self) -> list[Run]:
        """Loops over what is combined."""
        return [r for r in self.loops if r.axes[0] in self.space.reduced]

    @property
    def kept(self) -> list[Run]:
        """Loops over results."""
        return [r for r in self.loops if r.axes[0] not in self.space.reduced]

    @property
    def crossing(self) -> Dim:
        """Vectors of one crossing of the loop along which they are."""
        return (self.vector.extent if self.vector else volume(())) // self.lanes

    @property
    def vectors(self) -> Dim:
        """Vectors of a row."""
        if not self.by_row:
            return volume(tuple(r.extent for r in self.reduced))
        others = [r.extent for r in self.reduced if r is not self.vector]
        return volume(tuple(others)) * self.crossing

    @property
    def rows(self) -> Dim:
        """Rows in all."""
        if self.by_row:
            return volume(tuple(r.extent for r in self.kept))
        others = volume(tuple(r.extent for r in self.kept if r is not self.vector))
        return others * self.crossing if self.vector else others * 1
