"""Schedules of what contractions read: which operands are copied before, and how the copy lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlac.codegen.schedules.schedule import Misfit, Natural, Part, Path, Schedule
from xlac_sdk.dtypes import DType

Order = tuple[Natural, ...]
"""The axes of an operand in memory, outermost first."""


@dataclass(frozen=True, slots=True)
class OperandCopy(Part):
    """How an operand is copied before a kernel reads it: as elements of `dtype`, and in which order
    of its axes.
    """

    dtype: DType
    order: Order


@dataclass(frozen=True, slots=True)
class DotOperandsSchedule(Schedule):
    """How a product's operands lie when it is computed. The `left` one is copied before, as elements
    of `dtype` with its axes in this `order`, outermost first; or, where it is null, read as it lies.
    """

    template: ClassVar[str] = "dot_operands"
    left: OperandCopy | None


@dataclass(frozen=True, slots=True)
class ConvInputSchedule(Schedule):
    """How the input of a convolution lies when its windows go over it. It is copied with its padding,
    its axes in this `order`, outermost first; or, where that is null, read as it lies. An input with
    zeros between its elements is copied with them, or convolved in `phases`, without.
    """

    template: ClassVar[str] = "conv_input"
    phases: bool
    order: Order | None


OPERANDS = (DotOperandsSchedule, ConvInputSchedule)


def check_order(order: Order, rank: int, path: Path) -> None:
    """Raises Misfit for what is no order of so many axes."""
    if sorted(order) != list(range(rank)):
        raise Misfit(path, f"it has each of the {rank} axes once, counted from 0")
