"""From a fused group to kernels: each kind of group has its schedule, in a file of its own."""

from __future__ import annotations

from math import prod

from xlac.ir.dims import static
from xlac.schedule.group import Group, Kind, Scheduled
from xlac_sdk.target import Target


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """The launches of a group; `name` is an identifier that no other group has.

    A group whose outputs hold no elements has none. CLAIMED and CONTROL groups are host steps, which have no
    kernels: the planner writes them.
    """
    if not any(prod(static(t.shape)) for node in group.outputs for t in node.results):
        return Scheduled(())
    match group.kind:
        case Kind.ELEMENTWISE:
            from xlac.schedule import elementwise

            return elementwise.schedule(group, target, name)
        case Kind.ROWS:
            from xlac.schedule import rows

            return rows.schedule(group, target, name)
        case Kind.REDUCE:
            from xlac.schedule import reduce

            return reduce.schedule(group, target, name)
        case Kind.DOT:
            from xlac.schedule import dot

            return dot.schedule(group, target, name)
        case Kind.CONV:
            from xlac.schedule import conv

            return conv.schedule(group, target, name)
        case Kind.WINDOW:
            from xlac.schedule import window

            return window.schedule(group, target, name)
        case Kind.SCATTER:
            from xlac.schedule import scatter

            return scatter.schedule(group, target, name)
        case Kind.CUMULATIVE:
            from xlac.schedule import cumulative

            return cumulative.schedule(group, target, name)
        case Kind.SORT:
            from xlac.schedule import sort

            return sort.schedule(group, target, name)
        case Kind.RANDOM:
            from xlac.schedule import random

            return random.schedule(group, target, name)
        case Kind.CLAIMED | Kind.CONTROL:
            raise AssertionError(f"a {group.kind.value} group has no kernels")
