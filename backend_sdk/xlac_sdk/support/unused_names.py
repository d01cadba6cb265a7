"""Names that are not used yet."""

from __future__ import annotations

from collections.abc import MutableSet


def unused_name(wanted: str, taken: MutableSet[str]) -> str:
    """The wanted name or, if that is taken, `wanted_2`, `wanted_3`, …; it is added to `taken`."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name
