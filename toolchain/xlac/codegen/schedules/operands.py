"""Schedules of contractions that come before their kernels': which operands are copied, to which
layout, and which loops are rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Misfit, Natural, Part, Path, Schedule
from xlac_sdk.dtypes import DType

Order = tuple[Natural, ...]
"""The axes of an operand in memory, outermost first."""


@dataclass(frozen=True, slots=True)
class OperandCopy(Part):
    """How an operand is copied before a kernel reads it: the element type, and the
    order of axes.
    """

    dtype: DType
    order: Order


@dataclass(frozen=True, slots=True)
class DotOperandsSchedule(Schedule):
    """The layout of a product's operands. The `left` one is copied first, with elements of `dtype`
    and its axes in this `order`, outermost first; or, if it is null, read in place.
    """

    template: ClassVar[str] = "dot_operands"
    left: OperandCopy | None


@dataclass(frozen=True, slots=True)
class ConvInputSchedule(Schedule):
    """The layout of a convolution's input. It is copied with its padding, with its axes in this
    `order`, outermost first; or, if that is null, read in place. A dilated input is copied with its
    zeros, or convolved in `phases`, without.
    """

    template: ClassVar[str] = "conv_input"
    phases: bool
    order: Order | None


@dataclass(frozen=True, slots=True)
class RowLoopsSchedule(Schedule):
    """The two loops of a contraction that its row tiles cover, where more are left beside columns
    and sums: loops over merged axes of the result, numbered from the outermost. Every step of the
    others reads the right operand again.
    """

    template: ClassVar[str] = "row_loops"
    rows: tuple[Natural, Natural]


@dataclass(frozen=True, slots=True)
class ColumnLoopSchedule(Schedule):
    """The loop of a dot product that its columns cover, where the axes that only the right operand
    has make more than one: its number among them, from the outermost. Every step of the others
    reads the left operand again.
    """

    template: ClassVar[str] = "column_loop"
    columns: Natural


OPERANDS = (DotOperandsSchedule, ConvInputSchedule, RowLoopsSchedule, ColumnLoopSchedule)


def check_order(order: Order, rank: int, path: Path) -> None:
    """Raises Misfit unless `order` is a permutation of `rank` axes."""
    if sorted(order) != list(range(rank)):
        raise Misfit(path, f"it must have each of the {rank} axes once, counted from 0")
