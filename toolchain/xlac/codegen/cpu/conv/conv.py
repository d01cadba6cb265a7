"""Chooses the kernels of a convolution on a CPU: Winograd's, depthwise, or a contraction."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from xlac.codegen.core.contraction import byte_words, conv
from xlac.codegen.core.contraction.conv import Depthwise
from xlac.codegen.core.contraction.conv_input_choice import InputReads
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.cpu.conv import depthwise_nchw, depthwise_nhwc, nchw_choice
from xlac.codegen.cpu.conv.winograd import choose, winograd
from xlac.codegen.cpu.conv.winograd.choose import served, sides
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac.codegen.cpu.gemm.launches import launches
from xlac.codegen.schedules.gemm import CONTRACTIONS
from xlac.codegen.schedules.schedule import Schedule
from xlac.codegen.schedules.winograd import WinogradSchedule
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for a convolution with its epilogue."""
    wanted = lower_part.decisions.wanted(name)
    if isinstance(wanted, CONTRACTIONS):
        return conv.lower(group, target, name, lower_part, replace(TEMPLATES, depthwise=_none))
    templates = replace(TEMPLATES, reads=partial(_reads, target))
    tiling = _tiling(group.anchor, target, wanted)
    if tiling and (lowered := winograd.lower(group, target, name, lower_part, tiling)):
        return lowered
    return conv.lower(group, target, name, lower_part, templates)


def _tiling(anchor: Node, target: Target, wanted: Schedule | None) -> Tiling | None:
    """The Winograd tiling, if it pays or is asked for."""
    if isinstance(wanted, WinogradSchedule):
        able = sides(target)
        results = wanted.results if wanted.results in able else able[0]
        return served(anchor, results, target)
    return choose.chosen(anchor, target)


def _reads(target: Target, anchor: Node) -> InputReads:
    """Bytes are multiplied by fours, which are neighbouring channels."""
    x, kernel = (i.type.dtype for i in anchor.inputs)
    word = byte_words.SIGNS.get(x)
    fours = word is not None and kernel is DType.I8 and target.spells(Primitive.DOT4, word)
    return InputReads(masks=False, pays=False, phases=True, beside="C" if fours else "")


def _none(group: Group, target: Target, after: Epilogue) -> None:
    """A schedule that asks for a contraction disables the depthwise templates."""


def _depthwise(group: Group, target: Target, after: Epilogue) -> Depthwise | None:
    if nchw_choice.pays(group, target, after):
        masks, op = nchw_choice.masks(group, target), group.anchor.op
        assert isinstance(op, Conv)
        reads = InputReads(masks, masks, phases=False, beside=op.spatial[-1])
        return Depthwise(depthwise_nchw.launches, reads)
    if conv.is_depthwise_nhwc(group, phases=True) and not target.size:
        return Depthwise(depthwise_nhwc.launches, InputReads(True, True, phases=True, beside="C"))
    return None


TEMPLATES = conv.Templates(
    launches, lambda anchor: InputReads(masks=False, pays=False, phases=True), _depthwise
)
