"""Convolutions on a GPU: contractions as on a CPU, whose kernels mask what lies outside x instead
of reading a padded copy.
"""

from __future__ import annotations

from xlac.codegen.core import conv
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.gpu import depthwise
from xlac.codegen.gpu.gemm import skinny_gemm
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Conv
from xlac_sdk.target import Target


def schedule(group: Group, target: Target, name: str) -> LoweredGroup:
    """Launches for a convolution with what follows it."""
    return conv.schedule(group, target, name, conv.Ways(masks, depthwise.launches))


def masks(anchor: Node) -> bool:
    """Whether x is not spread, and no product of few columns, which reads x a few elements at a
    time.
    """
    op = anchor.op
    assert isinstance(op, Conv)
    channels = size_hint(anchor.shape[op.layout[2].index("C")]) // (
        op.feature_groups * op.batch_groups
    )
    pixels = size_hint(anchor.type.size) // max(1, channels)
    whole = all(step == 1 for step in op.lhs_dilation) and anchor.inputs[0].type.size != 0
    return whole and min(channels, pixels) > skinny_gemm.FEW
