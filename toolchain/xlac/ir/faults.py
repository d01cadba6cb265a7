"""What can be wrong with the values that an operation meets: what a checked program looks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xlac.ir.graph import Node

NAN, INFINITY = "nan", "infinity"
APPEARING = frozenset({NAN, INFINITY})


class Fault(NamedTuple):
    """Elements at fault: of a `kind` (bounds, division, sizes), where `bad` is true.

    `value` holds an integer to show for each element of `bad`, or is None; `told` says what is
    wrong, with `{value}` where that number goes.
    """

    kind: str
    bad: Node
    told: str
    value: Node | None = None
