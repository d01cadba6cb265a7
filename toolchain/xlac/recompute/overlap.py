"""The order of groups around collectives, in which computation hides the messages."""

from __future__ import annotations

from dataclasses import replace

from xlac.fusion.group import Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.spmd.hiding_order import StepPart, hiding_order


def overlapped(partition: Partition) -> Partition:
    """The partition with its groups in an order that hides its collectives, also those inside of
    loops; itself, where it has none. The same on all ranks, which have equal groups.
    """
    inner = {body: overlapped(part) for body, part in partition.inner.items()}
    if any(part is not partition.inner[body] for body, part in inner.items()):
        partition = replace(partition, inner=inner)
    groups = partition.groups
    if all(group.kind is not Kind.COLLECTIVE for group in groups):
        return partition
    parts = [
        StepPart(tuple(g.inputs), tuple(g.outputs), g.kind is Kind.COLLECTIVE, is_alias(g))
        for g in groups
    ]
    return replace(partition, groups=tuple(groups[at] for at in hiding_order(parts)))
