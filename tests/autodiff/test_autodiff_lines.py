"""The gradient of one element of each line is a choice, not a scatter into zeros."""

from __future__ import annotations

import pytest
from differences import applied, compare, drawn, widened

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import walk
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType


def _sample(x: tuple[int, ...], indices: tuple[int, ...], axis: int, dtype: DType) -> Sample:
    types = (Type(DType.F32, x), Type(dtype, indices))
    return widened(Sample(types, {"axis": axis}, ("normal", "index")))


@pytest.mark.parametrize(
    ("x", "indices", "axis", "scatters"),
    [
        ((4, 7), (4, 1), 1, False),
        ((7, 4), (1, 4), 0, False),
        ((2, 5, 3), (2, 1, 3), 1, False),
        ((5,), (1,), 0, False),
        ((3, 300), (3, 1), 1, False),  # more classes than a byte counts
        ((4, 7), (4, 2), 1, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [DType.I64, DType.U8], ids=str)
def test_one_of_each_line(
    x: tuple[int, ...], indices: tuple[int, ...], axis: int, scatters: bool, dtype: DType
) -> None:
    sample = _sample(x, indices, axis, dtype)
    params, outputs = applied("take_along_axis", sample)
    compare(params, outputs, drawn(sample))
    ct = build.param("ct", outputs[0].type.dtype, outputs[0].shape)
    (back,) = linearize(outputs, params[:1]).transposed([ct])
    assert any(isinstance(node.op, Scatter) for node in walk([back])) == scatters
