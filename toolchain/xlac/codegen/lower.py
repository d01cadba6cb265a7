"""From a fused group to kernels: each kind of group has its schedule, in a file of its own."""

from __future__ import annotations

from dataclasses import replace

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.fusion.group import Group, Kind
from xlac_sdk.support.limits import look
from xlac_sdk.target import Target

LIBRARIES = (Kind.DOT, Kind.CONV, Kind.ATTENTION)  # kinds that a target's libraries may compute


def schedule(group: Group, target: Target, name: str) -> LoweredGroup:
    """The launches of a group; `name` is an identifier that no other group has.

    A group whose outputs hold no elements has none, and one that a library of the target computes
    is a call. CLAIMED and CONTROL groups are host steps, which have no kernels: the planner writes
    them.
    """
    look()
    if all(t.size == 0 for node in group.outputs for t in node.results):
        return LoweredGroup(())
    if group.kind in LIBRARIES and (target.products or target.convolutions or target.attentions):
        from xlac.codegen.library.choose import called, without

        found = called(group, target)
        if isinstance(found, LoweredGroup):
            return found
        return replace(schedule(group, without(target), name), note=found)
    if target.warp:
        from xlac.codegen.gpu.lower import find

        of_gpu = find(group.kind)
        if of_gpu is not None:
            return of_gpu(group, target, name)
    match group.kind:
        case Kind.ELEMENTWISE:
            from xlac.codegen.cpu.elementwise import schedule as write
        case Kind.ROWS | Kind.REDUCE:
            from xlac.codegen.cpu.reduction import schedule as write
        case Kind.DOT:
            from xlac.codegen.core.dot import schedule as write
        case Kind.CONV:
            from xlac.codegen.core.conv import schedule as write
        case Kind.ATTENTION:
            from xlac.codegen.cpu.attention import schedule as write
        case Kind.WINDOW:
            from xlac.codegen.cpu.window import schedule as write
        case Kind.SCATTER:
            from xlac.codegen.cpu.scatter import schedule as write
        case Kind.UPDATE:
            from xlac.codegen.cpu.update import schedule as write
        case Kind.CUMULATIVE:
            from xlac.codegen.cpu.cumulative import schedule as write
        case Kind.SORT:
            from xlac.codegen.cpu.sort import schedule as write
        case Kind.RANDOM:
            from xlac.codegen.cpu.random import schedule as write
        case Kind.CLAIMED | Kind.CONTROL:
            raise AssertionError(f"a {group.kind.value} group has no kernels")
    return write(group, target, name)
