"""Convolutions on a GPU: contractions as on a CPU, whose kernels mask what lies outside x instead
of reading a padded copy.
"""

from __future__ import annotations

from xlac.codegen.core import conv
from xlac.codegen.core.lowered_group import Scheduled
from xlac.codegen.gpu import depthwise
from xlac.codegen.gpu.gemm import skinny_gemm
from xlac.fusion.group import Group
from xlac.ir.dims import at_opt
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Conv
from xlac_sdk.target import Target


def schedule(group: Group, target: Target, name: str) -> Scheduled:
    """Launches for a convolution with what follows it."""
    return conv.schedule(group, target, name, conv.Ways(masks, depthwise.launches))


def masks(hero: Node) -> bool:
    """Whether x is not spread, and no product of few columns, which reads x a few elements at a
    time.
    """
    op = hero.op
    assert isinstance(op, Conv)
    channels = at_opt(hero.shape[op.layout[2].index("C")]) // (op.feature_groups * op.batch_groups)
    pixels = at_opt(hero.type.size) // max(1, channels)
    whole = all(step == 1 for step in op.lhs_dilation) and hero.inputs[0].type.size != 0
    return whole and min(channels, pixels) > skinny_gemm.FEW
