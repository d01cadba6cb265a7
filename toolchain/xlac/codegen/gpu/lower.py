"""Which schedule makes the kernels of a group on a GPU. A kind without one of its own here has that
of the CPUs, whose loops the backend spreads over threads."""

from __future__ import annotations

from collections.abc import Callable

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.fusion.group import Group, Kind
from xlac_sdk.target import Target

Write = Callable[[Group, Target, str], LoweredGroup]


def find(kind: Kind) -> Write | None:
    """The schedule for a kind of group; None where that of the CPUs has to do."""
    match kind:
        case Kind.ELEMENTWISE:
            from xlac.codegen.gpu.elementwise import schedule as write
        case Kind.ROWS | Kind.REDUCE:
            from xlac.codegen.gpu.reduction.rows import schedule as write
        case Kind.CONV:
            from xlac.codegen.gpu.gemm.conv import schedule as write
        case Kind.WINDOW:
            from xlac.codegen.gpu.window import schedule as write
        case Kind.UPDATE:
            from xlac.codegen.gpu.update import schedule as write
        case Kind.RANDOM:
            from xlac.codegen.gpu.random import schedule as write
        case Kind.SORT:
            from xlac.codegen.gpu.sort.sort import schedule as write
        case Kind.SCATTER:
            from xlac.codegen.gpu.scatter import schedule as write
        case Kind.CUMULATIVE:
            from xlac.codegen.gpu.scan.cumulative import schedule as write
        case Kind.ATTENTION:
            from xlac.codegen.gpu.attention.attention import schedule as write
        case _:
            return None
    return write
