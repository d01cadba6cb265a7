"""Which element of a tensor another shape of it reads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from op_values import F32

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.regroup import regroup
from xlac.ops.tensor.view import Reshape
from xlac_sdk.kernel_ir import build as kernels
from xlac_sdk.kernel_ir.kernel import Const


def shapes_of(count: int, rank: int) -> list[tuple[int, ...]]:
    """Every shape of a rank with `count` elements."""
    if rank == 0:
        return [()] if count == 1 else []
    return [
        (d, *rest)
        for d in range(1, count + 1)
        if count % d == 0
        for rest in shapes_of(count // d, rank - 1)
    ]


@pytest.mark.parametrize("count", [1, 6, 12])
def test_reshaped_indices(count: int) -> None:
    shapes = [s for rank in range(4) for s in shapes_of(count, rank)]
    for new, old in itertools.product(shapes, shapes):
        for position in {0, count // 2, count - 1}:
            at = tuple(kernels.index(int(i)) for i in np.unravel_index(position, new))
            found = regroup(at, new, old)
            assert all(isinstance(i, Const) for i in found)
            assert tuple(int(i.value) for i in found if isinstance(i, Const)) == tuple(
                np.unravel_index(position, old)
            ), (new, old)


def test_matching_axes_keep_their_counters() -> None:
    from xlac_sdk.kernel_ir.kernel import Apply, Var

    def counters(shape: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(
            Var(f"i{n}", kernels.INDEX, low=0, high=size - 1) for n, size in enumerate(shape)
        )

    at = counters((8, 1, 3, 5))
    found = regroup(at, (8, 1, 3, 5), (8, 15))
    assert found[0] is at[0]
    split = regroup(counters((8, 15)), (8, 15), (8, 3, 5))
    divisions = [
        e for e in split if isinstance(e, Apply) and e.primitive in (kernels.P.DIV, kernels.P.REM)
    ]
    assert len(divisions) == 2
    assert Node.of(Reshape((8, 15)), build.param("x", F32, (8, 1, 3, 5))).type == Type(F32, (8, 15))
