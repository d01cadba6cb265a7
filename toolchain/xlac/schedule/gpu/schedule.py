"""Which schedule makes the kernels of a group on a GPU. A kind without one of its own here has that of the CPUs, whose
loops the backend spreads over threads."""

from __future__ import annotations

from collections.abc import Callable

from xlac.schedule.group import Group, Kind, Scheduled
from xlac_sdk.target import Target

Write = Callable[[Group, Target, str], Scheduled]


def find(kind: Kind) -> Write | None:
    """The schedule for a kind of group; None where that of the CPUs has to do."""
    match kind:
        case Kind.ELEMENTWISE:
            from xlac.schedule.gpu.elementwise import schedule as write
        case Kind.ROWS | Kind.REDUCE:
            from xlac.schedule.gpu.rows import schedule as write
        case Kind.CONV:
            from xlac.schedule.gpu.conv import schedule as write
        case Kind.WINDOW:
            from xlac.schedule.gpu.window import schedule as write
        case Kind.UPDATE:
            from xlac.schedule.gpu.update import schedule as write
        case Kind.RANDOM:
            from xlac.schedule.gpu.random import schedule as write
        case Kind.SORT:
            from xlac.schedule.gpu.sort import schedule as write
        case Kind.SCATTER:
            from xlac.schedule.gpu.scatter import schedule as write
        case Kind.CUMULATIVE:
            from xlac.schedule.gpu.cumulative import schedule as write
        case Kind.ATTENTION:
            from xlac.schedule.gpu.attention import schedule as write
        case _:
            return None
    return write
