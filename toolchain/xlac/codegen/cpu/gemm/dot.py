"""Dot products on a CPU."""

from __future__ import annotations

from xlac.codegen.core.contraction import dot
from xlac.codegen.core.contraction.dot import ChooseOperands
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.cpu.gemm import left_copy
from xlac.codegen.cpu.gemm.launches import launches
from xlac.fusion.group import Group
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for a dot product with its epilogue."""
    return dot.lower(group, target, name, lower_part, launches, choose_operands=OPERANDS)


OPERANDS = ChooseOperands(left_copy.choose, left_copy.check)
