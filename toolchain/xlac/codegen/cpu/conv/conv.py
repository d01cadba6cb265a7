"""Chooses the algorithm of a convolution on a CPU: Winograd's, depthwise, or a contraction."""

from __future__ import annotations

from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.contraction import byte_words, conv
from xlac.codegen.core.contraction.conv import Algorithms, Depthwise
from xlac.codegen.core.contraction.conv_input_choice import InputReads
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.cpu.conv import depthwise_nchw, depthwise_nhwc, nchw_choice
from xlac.codegen.cpu.conv.winograd import choose, weight_gradient, weight_gradient_choice, winograd
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac.codegen.cpu.gemm import streamed_choice
from xlac.codegen.cpu.gemm.launches import launches
from xlac.codegen.schedules.conv import ConvAlgorithm, WinogradSchedule
from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """Launches for a convolution with its epilogue."""

    def alone(part: Group) -> LoweredGroup:
        return conv.lower(part, target, name, lower_part, TEMPLATES)

    if _scatters(group, target.shipped):
        return operands.apart(group, group.anchor, alone, target, name, lower_part)
    return alone(group)


def _scatters(group: Group, target: Target) -> bool:
    """Whether a result that the second-level cache does not hold would be stored a few neighbours
    at a time, as a gradient for weights [out, in, rows, columns] is: three of a row of taps. A
    kernel of its own transposes it faster, where there is memory for both.
    """
    anchor, after = group.anchor, epilogue.of(group, group.anchor)
    size = volume(anchor.shape)
    if after is None or not isinstance(size, int) or not target.vector_bytes or target.size:
        return False
    nbytes, room = size * anchor.type.dtype.nbytes, target.temporary_bytes
    if nbytes <= target.l2_bytes or 0 < room < nbytes:
        return False
    assert isinstance(anchor.op, Conv)
    channels, lanes = anchor.op.layout[2].index("C"), target.lanes(anchor.type.dtype)

    def is_scattered(node: Node) -> bool:
        axis = after.contiguous_axis(node)
        return axis is None or (axis != channels and size_hint(anchor.shape[axis]) < lanes)

    return any(map(is_scattered, group.outputs))


def _algorithms(
    group: Group, target: Target, after: Epilogue, wanted: Schedule | None
) -> Algorithms:
    """Winograd's algorithm where its cost model prefers it, otherwise depthwise kernels where they
    apply and code need not be small.
    """
    depthwise = _depthwise(group, target, after)
    chosen: ConvAlgorithm = "depthwise" if depthwise and not target.size else "contraction"
    weights = weight_gradient_choice.tiling(group.anchor, target)
    if weights is not None:
        if weight_gradient_choice.pays(weights, target):
            chosen = "winograd_weights"
        lower_weights = partial(weight_gradient.lower, t=weights)
        return Algorithms(chosen, depthwise, winograd_weights=lower_weights)
    tiling, pays = _tiling(group, target, wanted)
    if tiling is None:
        return Algorithms(chosen, depthwise)
    lower_winograd = partial(winograd.lower, t=tiling)
    return Algorithms("winograd" if pays else chosen, depthwise, lower_winograd)


def _tiling(group: Group, target: Target, wanted: Schedule | None) -> tuple[Tiling | None, bool]:
    """The Winograd tiling that is asked for, else the cheapest, and whether it is cheaper than the
    direct sum; None if there is none.
    """
    candidates = choose.tilings(group.anchor, target) if winograd.takes_weights(group) else []
    if not candidates:
        return None, False
    best = choose.cheapest(candidates, target)
    if isinstance(wanted, WinogradSchedule):
        return next((t for t in candidates if t.results == wanted.results), candidates[0]), True
    return best, choose.pays(best, target)


def _reads(anchor: Node, target: Target) -> InputReads:
    """Kernels of words multiply adjacent channels at once, so channels must be contiguous."""
    x, kernel = (i.type.dtype for i in anchor.inputs)
    words = byte_words.multiply_words(x, kernel, target)
    across = _streams(anchor, target.shipped)
    return InputReads(False, False, phases=True, beside="C" if words else "", across=across)


def _streams(anchor: Node, target: Target) -> bool:
    """Whether its sum, as a contraction, can be the outermost loop, if x has its batch contiguous,
    as gradients for weights have.
    """
    (x, kernel), op = anchor.inputs, anchor.op
    assert isinstance(op, Conv)
    sizes = (*anchor.shape, *kernel.shape)
    if not (target.vector_bytes and x.type.dtype.is_float) or target.size:
        return False
    if not all(isinstance(n, int) for n in sizes):
        return False
    columns = size_hint(anchor.shape[op.layout[2].index("C")])
    rows, depth = volume(anchor.shape), volume(kernel.shape)
    groups = op.feature_groups * op.batch_groups
    return streamed_choice.suits(
        size_hint(rows) // max(1, columns), columns // groups, size_hint(depth) // max(1, columns)
    )


def _depthwise(group: Group, target: Target, after: Epilogue) -> Depthwise | None:
    """The depthwise template that can compute a convolution, if there is one."""
    if not conv.has_few_taps(group.anchor):
        return None
    if nchw_choice.able(group, target, after):
        masks, op = nchw_choice.masks(group, target), group.anchor.op
        assert isinstance(op, Conv)
        reads = InputReads(masks, masks, phases=False, beside=op.spatial[-1])
        return Depthwise(depthwise_nchw.launches, reads)
    if conv.is_depthwise_nhwc(group, phases=True, copied=_copies(group, target.shipped)):
        known = all(isinstance(n, int) for n in conv.space_of(group.anchor))
        reads = InputReads(known, known, phases=known, beside="C")
        return Depthwise(depthwise_nhwc.launches, reads)
    return None


def _copies(group: Group, target: Target) -> bool:
    """Whether a copy of x with its channels contiguous pays, which vectors of channels need: there
    are vectors, and memory for it.
    """
    x, room = group.anchor.inputs[0], target.temporary_bytes
    size = volume(x.shape)
    if not target.vector_bytes or target.vectorizes:
        return False
    return not room or (isinstance(size, int) and size * x.type.dtype.nbytes <= room)


TEMPLATES = conv.Templates(launches, _reads, _algorithms)
