"""Dot products: every operand layout, size class, dtype and epilogue gives what the graph means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import (
    TARGETS,
    agree,
    compute,
    cpu,
    group,
    of_sample,
    param,
    program,
    values,
)
from dot_groups import F32, _layer, matmul

from xlac.codegen import lower as table
from xlac.codegen.cpu.gemm import register_tile
from xlac.fusion.group import Kind
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Allocate, children

SIZES = [
    (1, 70, 130),
    (5, 1, 131),
    (3, 19, 200),
    (40, 37, 67),
    (17, 50, 16),
    (33, 64, 48),
    (2, 300, 40),
    (1, 1, 77),
    (7, 5, 0),
]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.sampled(12)
def test_samples(target, some):
    for number, sample in some(list(enumerate(Dot.samples())), 2):
        kinds = [("input", "weight"), ("input",), ("weight", "input")][number % 3]
        agree(group(Kind.DOT, of_sample("dot", sample, kinds)), target)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.sampled(12)
def test_sizes_and_layouts(target, turned):
    for number, (m, n, k) in enumerate(SIZES):
        kinds = (
            ("input", "weight") if target.name == "avx512" else (("input", "weight")[number % 2],)
        )
        for kind in kinds:
            agree(group(Kind.DOT, matmul(m, n, k, kind, turned)), target)


def test_blocks_of_rows_and_threads():
    small = TARGETS["avx512"].with_facts(l2_bytes=1 << 10)
    for m in (27, 28, 29, 56, 57, 100):
        agree(group(Kind.DOT, matmul(m, 20, 10, "weight")), small)
    big = group(Kind.DOT, matmul(130, 70, 60, "weight"))
    agree(big, replace(small, threads=2))
    assert (
        table.lower(big, replace(small, threads=2), "kernel").launches[0].kernel.parallel
        is not None
    )


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse"])
@pytest.mark.sampled(6)
@pytest.mark.long
def test_long_sums_are_added_in_chunks(name):
    target = replace(TARGETS[name], threads=1).with_facts(l2_bytes=4 << 10)
    for m, n, k, kind in ((60, 37, 600, "input"), (70, 20, 2823, "weight")):
        anchor = matmul(m, n, k, kind)
        made = group(
            Kind.DOT, anchor, build.maximum(build.add(anchor, param("bias", Type(F32, (n,)))), 0.0)
        )
        (*_, last) = table.lower(made, target, "kernel").launches
        assert any(isinstance(s, Allocate) for s in _statements(last.kernel.body))
        agree(made, target)


def _statements(block):
    for stmt in block:
        yield stmt
        for inner in children(stmt):
            yield from _statements(inner)


def test_empty_operands_have_no_launches_or_give_zeros():
    for m, n, k in ((0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0)):
        agree(group(Kind.DOT, matmul(m, n, k)), TARGETS["avx2"])


def test_special_values_pass_through():
    made = group(Kind.DOT, matmul(9, 21, 33, "weight"))
    given = values(made)
    given["a"][0, 0], given["a"][1, 1], given["b"][5, 3] = np.inf, np.nan, -np.inf
    for target in TARGETS.values():
        (got,) = compute(made, target, given)
        with np.errstate(all="ignore"):
            want = given["a"] @ given["b"]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


def test_tiles_fit_the_registers():
    for target in TARGETS.values():
        for dtype in (F32, DType.F64, DType.I32):
            for rows in ((1, 1), (1, 13), (1, 512), (7, 7), (56, 56)):
                for columns in (1, 3, 16, 48, 1000):
                    tile = register_tile.choose(target, dtype, rows, columns)
                    height = tile.rows[0] * tile.rows[1]
                    # products wait in two registers to be added
                    apart = target.vector_bytes and not target.fma
                    held = min(height, tile.vectors) + 3 if apart else tile.vectors + 1
                    used = height * tile.vectors + held
                    assert used <= target.vector_registers or (height, tile.vectors) == (1, 1)
                    assert tile.lanes <= target.lanes(dtype)


def test_equal_shapes_give_equal_kernels():
    from xlac_sdk.kernel_ir.text import show

    first, second = (
        table.lower(group(Kind.DOT, _layer(9, 21, 33)[1].inputs[0]), TARGETS["avx2"], "k")
        for _ in range(2)
    )
    assert show(first.launches[0].kernel) == show(second.launches[0].kernel)


def test_work_counts_multiplications_and_additions_of_the_whole_product():
    made = program(group(Kind.DOT, matmul(16, 32, 64)), TARGETS["avx512"], {})
    assert made.kernels[-1].work.flops == 2 * 16 * 32 * 64


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)])
@pytest.mark.sampled(6)
def test_on_this_machine(turned):
    target = cpu(threads=2)
    for m, n, k, dtype in (
        (70, 130, 90, F32),
        (1, 200, 300, F32),
        (300, 1, 200, F32),
        (33, 47, 21, DType.F16),
        (33, 47, 21, DType.I8),
    ):
        for kind in ("input", "weight"):
            agree(group(Kind.DOT, matmul(m, n, k, kind, turned, dtype)), target)
