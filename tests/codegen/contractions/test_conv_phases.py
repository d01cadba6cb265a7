"""Convolutions of spread inputs go phase by phase, and gradients for weights read lines."""

from __future__ import annotations

from itertools import product

import pytest
from contraction_harness import TARGETS, agree, conv, group, param

from xlac.codegen import lower as table
from xlac.codegen.core.contraction.phases import phases_of
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.view import Transpose
from xlac_sdk.dtypes import DType

F32 = DType.F32
SPREAD = {
    "halved": conv((1, 5, 6, 6), (3, 3, 6, 18), lhs_dilation=(2, 2), low=(1, 1), high=(2, 2)),
    "one tap": conv((2, 4, 4, 5), (1, 1, 5, 8), lhs_dilation=(2, 2), high=(1, 1)),
    "thirds, dilated": conv((1, 5, 4, 6), (3, 2, 6, 16), lhs_dilation=(3, 1), dilation=2, pad=3),
    "a shared divisor": conv((1, 6, 5, 4), (3, 3, 4, 8), lhs_dilation=(2, 2), dilation=2, pad=2),
    "strided too": conv((1, 6, 7, 4), (3, 3, 4, 8), lhs_dilation=(3, 2), stride=2, pad=1),
    "cropped": conv((1, 6, 7, 4), (3, 3, 4, 8), lhs_dilation=(2, 2), low=(-2, -1), high=(-1, 0)),
    "far outside": conv((1, 3, 3, 4), (3, 3, 4, 8), lhs_dilation=(2, 2), pad=9),
    "grouped": conv((1, 5, 5, 16), (3, 3, 4, 32), lhs_dilation=(2, 2), pad=1, groups=4),
    "depthwise": conv(
        (1, 6, 7, 20), (3, 3, 1, 20), lhs_dilation=(2, 2), low=(1, 1), high=(2, 2), groups=20
    ),
    "depthwise, one tap": conv(
        (2, 4, 4, 16), (1, 1, 1, 16), lhs_dilation=(2, 2), high=(1, 1), groups=16
    ),
    "depthwise at run time": conv(
        (1, 6, 7, 8), (4, 4, 1, 8), lhs_dilation=(3, 2), pad=2, groups=8, kind="input"
    ),
}


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.sampled(10)
def test_spread(name: str) -> None:
    anchor = SPREAD[name]
    more = param("more", anchor.type)
    after = build.maximum(build.add(anchor, more), 0.0)
    for number, target in enumerate(("avx2", "avx512", "size")):
        agree(group(Kind.CONV, anchor, *([after] if number == 0 else [])), TARGETS[target])


@pytest.mark.parametrize("name", SPREAD)
def test_phases_meet_every_product_once(name: str) -> None:
    """All taps of all results that meet an element of x, and no others."""
    anchor = SPREAD[name]
    op = anchor.op
    assert isinstance(op, Conv)
    for axis, letter in enumerate(op.spatial):
        size, taps, results = (
            shape[layout.index(letter)]
            for layout, shape in zip(
                op.layout,
                (anchor.inputs[0].shape, anchor.inputs[1].shape, anchor.shape),
                strict=True,
            )
        )
        gap = op.lhs_dilation[axis]
        if gap == 1:
            continue
        wanted = sorted(
            (o, k, where // gap)
            for o, k in product(range(results), range(taps))
            if (where := o * op.strides[axis] + k * op.rhs_dilation[axis] - op.low[axis]) % gap == 0
        )
        seen = sorted(
            (
                a.first + p * a.step,
                a.first_tap + j * a.tap_step,
                a.start + p * a.moves + j * a.reaches,
            )
            for a in {phase[letter] for phase in phases_of(anchor)}
            for p, j in product(range(a.count), range(a.taps))
        )
        assert seen == wanted and size


def _of_weights(channels: int, size: int, filters: int, kernel: int) -> Node:
    """The gradient for weights of a convolution of channels-last maps, which lie so in memory."""
    x = param("x", Type(F32, (2, size, size, channels)))
    ct = param("ct", Type(F32, (size, size, 2, filters)))
    turned = Node.of(Transpose((3, 1, 2, 0)), x)
    pad = (kernel // 2,) * 2
    ones = (1, 1)
    return Node.of(Conv(("NHWC", "HWIO", "NHWC"), ones, pad, pad, ones, ones), turned, ct)


@pytest.mark.parametrize("kernel", [1, 3])
def test_gradients_for_weights_read_lines(kernel: int) -> None:
    """x, whose channels are neighbours, is copied so that the sum runs along its lines."""
    anchor = _of_weights(5, 9, 17, kernel)
    for name in ("avx2", "avx512"):
        agree(group(Kind.CONV, anchor), TARGETS[name])
    launches = table.lower(group(Kind.CONV, anchor), TARGETS["avx2"], "k").launches
    assert next(launch.kernel.name for launch in launches) == "k_pad"
    small = table.lower(group(Kind.CONV, _of_weights(5, 3, 17, 1)), TARGETS["avx2"], "k").launches
    assert not any(launch.kernel.name == "k_pad" for launch in small)
