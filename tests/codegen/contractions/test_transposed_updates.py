"""Results that are stored transposed, beside arrays of their layout: weights and moments of an
optimizer's step, after a product whose sums are in the other order.
"""

from __future__ import annotations

import pytest
from contraction_harness import TARGETS, agree, group, param

from xlac.codegen.core.seams.opportunities import has_gathers, weight
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Allocate, statements

SIZES = [(27, 35, 50), (16, 32, 20), (13, 16, 300), (40, 5, 33)]


def momentum_step(m: int, n: int, k: int) -> Group:
    """`v <- 0.9 v + g + 0.01 w` and `w <- w - 0.1 v`, where `g` is a transposed product."""
    x, y = param("x", Type(DType.F32, (m, k))), param("y", Type(DType.F32, (k, n)))
    w, v = (param(name, Type(DType.F32, (n, m))) for name in "wv")
    product = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), x, y)
    gradient = build.add(build.transpose(product, (1, 0)), build.mul(w, 0.01))
    following = build.add(build.mul(v, 0.9), gradient)
    return group(Kind.DOT, product, build.sub(w, build.mul(following, 0.1)), following)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("sizes", SIZES)
def test_updates_are_what_the_graph_means(target, sizes) -> None:
    agree(momentum_step(*sizes), target)


@pytest.mark.parametrize("sizes", SIZES[:3])
def test_arrays_of_the_results_layout_are_read_without_gathers(sizes) -> None:
    kernels = [
        launch.kernel for launch in lower(momentum_step(*sizes), TARGETS["avx512"], "k").launches
    ]
    assert not any(has_gathers(kernel.body) for kernel in kernels)


def residual(m: int, n: int, k: int) -> Group:
    """`relu(x y + r)`, transposed: r has the layout of the sums."""
    x, y = param("x", Type(DType.F32, (m, k))), param("y", Type(DType.F32, (k, n)))
    product = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), x, y)
    total = build.add(product, param("r", Type(DType.F32, (m, n))))
    return group(Kind.DOT, product, build.transpose(build.maximum(total, 0.0), (1, 0)))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("sizes", SIZES)
def test_what_has_the_layout_of_sums_is_read_before_the_transpose(target, sizes) -> None:
    agree(residual(*sizes), target)


@pytest.mark.parametrize("sizes", SIZES[1:3])
def test_its_epilogue_stays_in_registers(sizes) -> None:
    for launch in lower(residual(*sizes), TARGETS["avx512"], "k").launches:
        body = launch.kernel.body
        assert not has_gathers(body)
        assert not any(isinstance(one, Allocate) for one in statements(body))


def test_code_of_a_tile_does_not_grow_with_the_columns() -> None:
    narrow, wide = (
        weight(lower(momentum_step(13, n, 64), TARGETS["avx512"], "k").launches[-1].kernel.body)
        for n in (16, 32)
    )
    assert wide < 1.6 * narrow
