"""The gradient of depthwise convolutions for their weights is a sum for each tap."""

from __future__ import annotations

import pytest
from differences import applied, compare, drawn, widened

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import walk
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

PLANES, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")


def _sample(
    layout: tuple[str, str, str], x: tuple[int, ...], kernel: tuple[int, ...], **given: object
) -> Sample:
    attributes = {
        "layout": layout,
        "strides": (1, 1),
        "low": (1, 1),
        "high": (1, 1),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "feature_groups": 4,
    } | given
    return widened(Sample((Type(DType.F32, x), Type(DType.F32, kernel)), attributes))


@pytest.mark.parametrize(
    "sample",
    [
        _sample(PLANES, (2, 4, 6, 5), (4, 1, 3, 3)),
        _sample(LAST, (2, 6, 5, 4), (3, 2, 1, 4), strides=(2, 3), high=(0, 2)),
        _sample(LAST, (1, 7, 8, 4), (3, 3, 1, 4), rhs_dilation=(2, 1), low=(-1, 2)),
        _sample(("CNHW", "HOWI", "HWNC"), (4, 2, 5, 6), (2, 4, 3, 1), low=(0, 3)),
    ],
)
def test_sums_over_taps(sample: Sample) -> None:
    params, outputs = applied("conv", sample)
    compare(params, outputs, drawn(sample))
    ct = build.param("ct", outputs[0].type.dtype, outputs[0].shape)
    (back,) = linearize(outputs, params[1:]).transposed([ct])
    assert not any(isinstance(node.op, Conv) for node in walk([back]))
