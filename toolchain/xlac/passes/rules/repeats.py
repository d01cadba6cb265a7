"""Elements repeated along axes, as by nearest-neighbour upsampling."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xlac.ir.graph import Node
from xlac.ir.permutations import inverse
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.views import broadcast, groups, integers, reshape


def _doubled(p: Parameter, *units: int) -> Node:
    """An example: a channels-last map as channels first, with doubled height."""
    first = len(units)
    wide = broadcast(p(3, 4, 5), (*units, 5, 3, 2, 4), (first + 1, first + 3, first))
    return reshape(wide, *units, 5, 6, 4)


@rule(
    Reshape,
    examples=[
        lambda p: _doubled(p),
        lambda p: _doubled(p, 1),
        lambda p: reshape(broadcast(p(3, 5), (5, 2, 3), (2, 0)), 10, 3),
    ],
)
def sink_transpose_repeat(node: Node, site: Site) -> Node | None:
    """Moves a repetition before a transpose."""
    (x,) = node.inputs
    if not isinstance(x.op, Broadcast):
        return None
    (source,), axes, runs = x.inputs, x.op.axes, groups(x.shape, node.shape)
    if runs is None or list(axes) == sorted(axes) or 1 in source.shape:
        return None
    taken: list[tuple[int, range, range]] = []
    for old, new in runs:
        inside = [number for number, axis in enumerate(axes) if axis in old]
        if len(inside) != 1 or len(new) != 1 + sum(node.shape[a] == 1 for a in new):
            return None
        taken.append((inside[0], old, new))
    taken.sort(key=lambda run: run[0])
    before = [a for _, old, _ in taken for a in old]
    after = [a for _, _, new in taken for a in new]
    wide = Broadcast(tuple(x.shape[a] for a in before), tuple(before.index(a) for a in axes))
    merged = Reshape(tuple(node.shape[a] for a in after))
    return site.make(Transpose(inverse(after)), site.make(merged, site.make(wide, source)))


def _several(p: Parameter, channels: int, each: int) -> Node:
    """An example: a depthwise convolution with `each` results of a channel."""
    layout, ones = ("NHWC", "HWIO", "NHWC"), (1, 1)
    op = Conv(layout, ones, ones, ones, ones, ones, feature_groups=channels)
    return Node.of(op, p(2, 4, 3, channels), p(3, 3, 1, channels * each))


@rule(Conv, examples=[lambda p: _several(p, 8, 2), lambda p: _several(p, 4, 4)])
def repeat_channels(node: Node, site: Site) -> Node | None:
    """A depthwise convolution with a few results of each channel becomes one of repeated channels,
    which are the lanes of vectors. The results of a single channel would not fill one.
    """
    assert isinstance(node.op, Conv)
    op, target, (x, kernel) = node.op, site.context.target, node.inputs
    last = "".join(letters[-1] for letters in op.layout) == "COC"
    if not last or op.batch_groups != 1 or (sizes := integers(kernel.shape)) is None:
        return None
    channels, (*taps, inputs, results) = op.feature_groups, sizes
    each, lanes = results // channels, target.lanes(node.type.dtype)
    few = inputs == 1 < channels and 1 < each <= lanes // 4 and lanes % each == 0
    vectors = target.device == "cpu" and target.vector_bytes and not target.vectorizes
    # an element of the copy of x takes as long as one and a half vectors of a contraction
    worth = results >= lanes and 2 * prod(taps) >= 3 * each * prod(op.strides)
    if not (few and vectors and worth and node.type.dtype.is_float):
        return None
    wide = site.make(Broadcast((*x.shape, each), tuple(range(x.type.rank))), x)
    repeated = site.make(Reshape((*x.shape[:-1], results)), wide)
    return site.make(replace(op, feature_groups=results), repeated, kernel)


REPEATS = (sink_transpose_repeat, repeat_channels)
