"""Schedules of factorizations and triangular systems of small matrices on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Positive, Schedule, Threads


@dataclass(frozen=True, slots=True)
class FactorSchedule(Schedule):
    """Factors of a small matrix, `lu` and `cholesky`. A step divides a column by the pivot and
    subtracts an outer product from what is right of it and below, in vectors of `lanes` elements of
    a row; `threads` share the matrices of a batch.
    """

    template: ClassVar[str] = "factor"
    lanes: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class SubstitutionSchedule(Schedule):
    """A triangular system with a small matrix. `rows` rows of the result are summed at once, in
    `unroll` vectors of `lanes` columns each, then solved for one after the other; `threads` share
    the matrices of a batch and groups of `unroll` vectors.
    """

    template: ClassVar[str] = "substitution"
    lanes: Positive
    unroll: Positive
    rows: Positive
    threads: Threads


MATRICES = (FactorSchedule, SubstitutionSchedule)
