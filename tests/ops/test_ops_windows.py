"""Windows that hold nothing are refused where shapes are inferred, before anything is evaluated."""

from __future__ import annotations

import pytest

from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType


def window(*extents: int) -> Window:
    ones, zeros = (1,) * len(extents), (0,) * len(extents)
    return Window("add", None, extents, ones, zeros, zeros, ones, ones)


@pytest.mark.parametrize("extents", [(0, 2), (2, 0), (0, 0)])
def test_an_empty_window_is_refused(extents: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="a window takes at least one element along each axis"):
        window(*extents).infer(Type(DType.F32, (3, 5)))


def test_the_least_window_is_accepted() -> None:
    assert window(1, 2).infer(Type(DType.F32, (3, 5))) == Type(DType.F32, (3, 4))
