"""Convolutions on a GPU: contractions as on a CPU, whose kernels mask reads outside x instead of
reading a padded copy.
"""

from __future__ import annotations

from xlac.codegen.core.contraction import conv
from xlac.codegen.core.contraction.conv import Algorithms, Depthwise
from xlac.codegen.core.contraction.conv_input_choice import InputReads
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.gpu import depthwise
from xlac.codegen.gpu.gemm import skinny_tile
from xlac.codegen.gpu.gemm.launches import launches
from xlac.codegen.schedules.conv import ConvAlgorithm
from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for a convolution with its epilogue."""
    return conv.lower(group, target, name, lower_part, TEMPLATES)


def _algorithms(
    group: Group, target: Target, after: Epilogue, wanted: Schedule | None
) -> Algorithms:
    """Depthwise kernels where they are able and code need not be small."""
    if not (conv.has_few_taps(group.anchor) and conv.is_depthwise_nhwc(group)):
        return Algorithms("contraction")
    reads = InputReads(True, True, phases=False, beside="C")
    chosen: ConvAlgorithm = "contraction" if target.size else "depthwise"
    return Algorithms(chosen, Depthwise(depthwise.launches, reads))


def _reads(anchor: Node, target: Target) -> InputReads:
    """Reads outside x are masked, unless x is dilated, or the product has few columns, for which x
    is read a few elements at a time.
    """
    op = anchor.op
    assert isinstance(op, Conv)
    channels = size_hint(anchor.shape[op.layout[2].index("C")]) // (
        op.feature_groups * op.batch_groups
    )
    pixels = size_hint(anchor.type.size) // max(1, channels)
    there = anchor.inputs[0].type.size != 0
    whole = there and all(step == 1 for step in op.lhs_dilation)
    return InputReads(there, whole and min(channels, pixels) > skinny_tile.FEW, phases=False)


TEMPLATES = conv.Templates(launches, _reads, _algorithms)
