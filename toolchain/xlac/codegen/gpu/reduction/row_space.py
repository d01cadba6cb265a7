"""The loops around reductions as rows of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.ir.dims import Dim, volume


@dataclass(frozen=True, slots=True)
class RowSpace:
    """A partition of the loops into rows and vectors of `lanes` elements (or single elements).

    If the vector loop is reduced, a row is the elements of one result, in vectors. If it is kept, a
    row is a vector of results, and its vectors are the positions that are combined.
    """

    space: ReductionSpace
    loops: Sequence[Run]
    vector: Run | None
    lanes: int
    by_row: bool

    @property
    def reduced(self) -> list[Run]:
        """The reduced loops."""
        return [r for r in self.loops if r.axes[0] in self.space.reduced]

    @property
    def kept(self) -> list[Run]:
        """The kept loops."""
        return [r for r in self.loops if r.axes[0] not in self.space.reduced]

    @property
    def crossing(self) -> Dim:
        """Vectors of one traversal of the vector loop."""
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
        """The number of rows."""
        if self.by_row:
            return volume(tuple(r.extent for r in self.kept))
        others = volume(tuple(r.extent for r in self.kept if r is not self.vector))
        return others * self.crossing if self.vector else others * 1
