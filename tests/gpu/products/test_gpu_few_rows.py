"""Products of few rows, and of fewer blocks than the machine has multiprocessors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_harness import agree, group, param
from gpu_products import CORES, PLAIN, TURNS, D, kernels, loads, matmul

from xlac.fusion.group import Kind
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["eight", "warps"])
@pytest.mark.parametrize("dtype", [D.F32, D.BF16, D.F64, D.I8])
@pytest.mark.sampled(4)
def test_few_rows(dtype: DType, target: Target, request: pytest.FixtureRequest) -> None:
    """Each size in half of the layouts, with --all in every one."""
    sizes = (
        (1, 64, 96),
        (1, 37, 67),
        (3, 40, 32),
        (70, 1, 130),
        (64, 2, 64),
        (8, 24, 16),
        (6, 5, 4),
    )
    for number, turned in enumerate(TURNS):
        for m, n, k in sizes if request.config.getoption("--all") else sizes[number % 2 :: 2]:
            agree(group(Kind.DOT, matmul(m, n, k, turned, dtype)), target)


def test_few_rows_read_the_large_operand_once_in_sixteen_bytes() -> None:
    for turned in ((False, False), (False, True)):
        (kernel,) = kernels(group(Kind.DOT, matmul(1, 256, 128, turned, D.BF16)), CORES)
        (large,) = (b for b in kernel.parameters if b.size == 256 * 128)
        assert {e.lanes for e in loads(kernel) if e.buffer is large} == {8}


@pytest.mark.parametrize("dtype", [D.F32, D.BF16])
@pytest.mark.sampled(4)
def test_blocks_share_long_sums(dtype: DType) -> None:
    """Where a product has fewer blocks than the machine has multiprocessors; a second kernel adds
    and goes on.
    """
    target = replace(PLAIN if dtype is D.F32 else CORES, processors=20)
    for turned, (m, n, k) in zip(
        TURNS[:: 2 if dtype is D.F32 else 3], ((12, 21, 512), (17, 9, 512)), strict=True
    ):
        anchor = matmul(m, n, k, turned, dtype)
        made = group(
            Kind.DOT,
            anchor,
            build.maximum(build.add(anchor, param("bias", Type(dtype, (n,)))), 0.0),
        )
        assert len(kernels(made, target)) == 2
        agree(made, target)
    assert (
        len(
            kernels(
                group(Kind.DOT, matmul(12, 21, 1000, dtype=dtype)), replace(target, processors=1)
            )
        )
        == 1
    )
