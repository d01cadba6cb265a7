"""Dot products on a GPU."""

from __future__ import annotations

from xlac.codegen.core.contraction import dot
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu.gemm.launches import launches
from xlac.fusion.group import Group
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for a dot product with its epilogue; elementwise operands are computed where the
    kernel reads them.
    """
    return dot.lower(group, target, name, lower_part, launches, prologue=True)
