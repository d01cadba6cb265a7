"""What follows a product whose sums wait in memory is written once for a row, not for each row of
a tile, so that its text does not grow with the tile.
"""

from __future__ import annotations

import pytest
from contraction_harness import TARGETS, agree, group, param

from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Access, Space, Store, statements


def product(m: int, n: int, k: int) -> Group:
    """max(x y + b, 0) + r, of which the last adds what has the result's layout."""
    x, y = param("x", Type(DType.F32, (m, k))), param("y", Type(DType.F32, (k, n)))
    b, r = param("b", Type(DType.F32, (n,))), param("r", Type(DType.F32, (m, n)))
    dot = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), x, y)
    return group(Kind.DOT, dot, build.add(build.maximum(build.add(dot, b), 0.0), r))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("sizes", [(37, 83, 700), (5, 33, 1100)])
def test_they_are_what_the_graph_means(target, sizes) -> None:
    agree(product(*sizes), target)


def test_one_row_is_written() -> None:
    group = product(96, 512, 1024)
    kernels = [launch.kernel for launch in lower(group, TARGETS["avx512"], "k").launches]
    stores = [
        stmt
        for stmt in statements(kernels[-1].body)
        if isinstance(stmt, Store)
        and stmt.buffer.space is Space.GLOBAL
        and stmt.buffer.access is not Access.READ
    ]
    assert 0 < len(stores) <= 8
