"""What an operation declares of values that it gives a result for, but should not have been given.

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
    """Indices that are not below their count, or are negative; where one `wraps`, those from -count
    on are inside too.

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
    """Integers `x` divided by a `y` of zero and, where the quotient can overflow, the least number
    of a signed type divided by -1. Nothing for floats.
    """

    x: Node
    y: Node
    overflows: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class NegativePower:
    """Zero to a negative power, for integers. Nothing for floats."""

    x: Node
    y: Node


@dataclass(frozen=True, slots=True, eq=False)
class SizeOverflow:
    """A size that an integer type may be too narrow for; `what` it is, for the message."""

    size: Dim
    dtype: DType
    what: str


DeclaredFault = OutOfRange | IntegerDivision | NegativePower | SizeOverflow
