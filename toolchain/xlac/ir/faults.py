"""Faults that an operation declares: operand values for which it has a result, but which are
errors.

These are data: a checked program turns them into nodes that look for such values
(`passes/checks/conditions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.ir.dims import Dim
    from xlac.ir.graph import Node

NAN, INFINITY = "nan", "infinity"
APPEARING = frozenset({NAN, INFINITY})


@dataclass(frozen=True, slots=True, eq=False)
class OutOfRange:
    """Indices out of bounds: not below their count, or negative; with `wraps`, indices from -count
    on are valid.

    With an axis of `indices` there is a count for each position along it, without one there is one
    for all. `what` names an index in the message, `{value}` being the number.
    """

    indices: Node
    counts: tuple[Dim, ...]
    axis: int | None = None
    wraps: bool = False
    what: str = "index {value}"


@dataclass(frozen=True, slots=True, eq=False)
class IntegerDivision:
    """Integers `x` divided by a `y` of zero and, where the quotient can overflow, the least value
    of a signed type divided by -1. Never for floats.
    """

    x: Node
    y: Node
    overflows: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class NegativePower:
    """Zero to a negative power, for integers. Never for floats."""

    x: Node
    y: Node


@dataclass(frozen=True, slots=True, eq=False)
class SizeOverflow:
    """A size that may not fit in an integer type; `what` names the size in the message."""

    size: Dim
    dtype: DType
    what: str


DeclaredFault = OutOfRange | IntegerDivision | NegativePower | SizeOverflow
