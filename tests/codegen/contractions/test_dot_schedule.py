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

from xlac.codegen import lower as table
from xlac.codegen.core.lowered_group import PackedConstant, Scratch
from xlac.codegen.cpu.gemm import register_tile
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor import view
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Allocate, children

F32 = DType.F32
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


def matmul(
    m: int,
    n: int,
    k: int,
    kind: str = "input",
    turned: tuple[bool, bool] = (False, False),
    dtype: DType = F32,
) -> Node:
    left = param("a", Type(dtype, (k, m) if turned[0] else (m, k)))
    right = param("b", Type(dtype, (n, k) if turned[1] else (k, n)), kind)
    return Node.of(
        Dot(contract_lhs=(0 if turned[0] else 1,), contract_rhs=(1 if turned[1] else 0,)),
        left,
        right,
    )


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.sampled(6)
def test_samples(target, some):
    for number, sample in some(list(enumerate(Dot.samples())), 2):
        kinds = [("input", "weight"), ("input",), ("weight", "input")][number % 3]
        agree(group(Kind.DOT, of_sample("dot", sample, kinds)), target)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.sampled(6)
def test_sizes_and_layouts(target, turned):
    for number, (m, n, k) in enumerate(SIZES):
        kinds = (
            ("input", "weight") if target.name == "avx512" else (("input", "weight")[number % 2],)
        )
        for kind in kinds:
            agree(group(Kind.DOT, matmul(m, n, k, kind, turned)), target)


def test_blocks_of_rows_and_threads():
    small = replace(TARGETS["avx512"], l2_bytes=1 << 10)
    for m in (27, 28, 29, 56, 57, 100):
        agree(group(Kind.DOT, matmul(m, 20, 10, "weight")), small)
    big = group(Kind.DOT, matmul(130, 70, 60, "weight"))
    agree(big, replace(small, threads=2))
    assert (
        table.lower(big, replace(small, threads=2), "kernel").launches[0].kernel.parallel
        is not None
    )


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse"])
@pytest.mark.sampled(3)
def test_long_sums_are_added_in_chunks(name):
    target = replace(TARGETS[name], l2_bytes=4 << 10, threads=1)
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


# ---- operands ------------------------------------------------------------------------------------


def test_operands_that_are_views_are_read_in_place():
    x = param("x", Type(F32, (2, 6, 40)))
    w = param("w", Type(F32, (3, 5, 20)), "weight")
    left = build.reshape(
        Node.of(view.Slice(starts=(0, 1, 4), stops=(2, 6, 34), steps=(1, 1, 2)), x), (10, 15)
    )
    right = build.transpose(build.reshape(w, (15, 20)), (1, 0))
    anchor = Node.of(Dot(contract_lhs=(1,), contract_rhs=(1,)), left, right)
    for target in TARGETS.values():
        agree(group(Kind.DOT, anchor), target)


def test_weights_changed_by_the_group_are_computed_while_compiling():
    w = param("w", Type(F32, (15, 20)), "weight")
    anchor = Node.of(
        Dot(contract_lhs=(1,), contract_rhs=(0,)), param("x", Type(F32, (4, 15))), build.mul(w, 2.0)
    )
    made = group(Kind.DOT, anchor)
    scheduled = table.lower(made, TARGETS["avx512"], "kernel")
    assert len(scheduled.launches) == 1
    assert any(isinstance(a, PackedConstant) for a in scheduled.launches[0].arguments)
    agree(made, TARGETS["avx512"])


def test_computed_operands_are_stored_first():
    x = param("x", Type(F32, (4, 15)))
    y = param("y", Type(F32, (15, 20)))
    anchor = Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), build.mul(x, x), build.add(y, 1.0))
    for target in TARGETS.values():
        agree(group(Kind.DOT, anchor), target)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_halves_that_are_read_often_are_converted_once(dtype):
    anchor = matmul(9, 130, 20, "weight", dtype=dtype)
    for made in (group(Kind.DOT, anchor), group(Kind.DOT, anchor, build.maximum(anchor, 0.0))):
        for target in (TARGETS["avx512"], TARGETS["scalar"], TARGETS["size"]):
            launches = table.lower(made, target, "kernel").launches
            assert len(launches) == (1 if target.size else 2)
            agree(made, target)


def test_a_constant_operand_is_packed_and_small_code_does_not_copy():
    made = group(Kind.DOT, matmul(64, 100, 50, "weight"))
    for name, packed in (("avx512", True), ("size", False)):
        scheduled = table.lower(made, TARGETS[name], "kernel")
        assert len(scheduled.launches) == 1
        assert any(isinstance(a, PackedConstant) for a in scheduled.launches[0].arguments) is packed


def test_a_small_layer_runs_without_packing():
    made = group(Kind.DOT, matmul(1, 128, 64, "weight"))
    scheduled = table.lower(made, TARGETS["avx512"], "kernel")
    arguments = scheduled.launches[0].arguments
    assert len(scheduled.launches) == 1 and not any(
        isinstance(a, PackedConstant | Scratch) for a in arguments
    )
    assert scheduled.launches[0].kernel.parallel is None


# ---- epilogues -----------------------------------------------------------------------------------


def _layer(m: int, n: int, k: int, dtype: DType = F32) -> tuple[Node, Node]:
    anchor = matmul(m, n, k, "weight", dtype=dtype)
    return anchor, build.add(anchor, param("bias", Type(dtype, (n,)), "weight"))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("sizes", [(1, 128, 64), (9, 21, 33), (30, 70, 20)])
@pytest.mark.sampled(3)
def test_epilogues(target, sizes):
    anchor, biased = _layer(*sizes)
    relu = build.maximum(biased, 0.0)
    residual = build.add(relu, param("r", anchor.type))
    agree(group(Kind.DOT, anchor, relu), target)
    agree(group(Kind.DOT, anchor, residual, biased), target)
    agree(group(Kind.DOT, anchor, anchor, build.cast(residual, DType.F16)), target)
    erf = build.mul(biased, build.add(build.apply1("erf", build.mul(biased, 0.70710678)), 1.0))
    agree(group(Kind.DOT, anchor, build.mul(build.exp(build.mul(erf, 0.01)), 0.5)), target)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I32])
def test_epilogues_see_the_rounded_result(dtype):
    anchor, biased = _layer(9, 21, 33, dtype)
    for target in TARGETS.values():
        agree(group(Kind.DOT, anchor, build.mul(biased, biased)), target)


def test_results_that_are_views_are_stored_where_they_belong():
    anchor, biased = _layer(12, 40, 10)
    heads = build.transpose(build.reshape(biased, (3, 4, 5, 8)), (0, 2, 1, 3))
    for target in TARGETS.values():
        agree(group(Kind.DOT, anchor, heads), target)
        agree(group(Kind.DOT, anchor, build.transpose(build.maximum(biased, 0.0), (1, 0))), target)


def test_batched_rows_with_a_bias_over_one_axis():
    x, w = param("x", Type(F32, (2, 5, 12))), param("w", Type(F32, (12, 20)), "weight")
    anchor = Node.of(Dot(contract_lhs=(2,), contract_rhs=(0,)), x, w)
    scale = build.reshape(param("s", Type(F32, (5,))), (5, 1))
    for target in TARGETS.values():
        agree(group(Kind.DOT, anchor, build.mul(anchor, scale)), target)
        agree(group(Kind.DOT, anchor, build.add(anchor, param("b", Type(F32, (20,))))), target)


def test_an_epilogue_that_does_not_fuse_runs_afterwards():
    anchor, biased = _layer(6, 10, 8)
    both = build.add(anchor, build.reshape(build.transpose(biased, (1, 0)), (6, 10)))
    made = group(Kind.DOT, anchor, both)
    for target in TARGETS.values():
        agree(made, target)


def test_outputs_take_the_place_of_residuals_only_where_that_is_safe():
    anchor, biased = _layer(16, 32, 16)
    residual = param("r", anchor.type)
    safe = table.lower(
        group(Kind.DOT, anchor, build.add(biased, residual)), TARGETS["avx512"], "kernel"
    )
    assert [(b.op.name) for _, b in safe.in_place] == ["r"]
    square = matmul(16, 16, 16)
    crossed = build.add(square, build.transpose(param("r", square.type), (1, 0)))
    assert table.lower(group(Kind.DOT, square, crossed), TARGETS["avx512"], "kernel").in_place == ()
    itself = build.add(square, square.inputs[0])
    assert table.lower(group(Kind.DOT, square, itself), TARGETS["avx512"], "kernel").in_place == ()


# ---- shape of the code ---------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "rows, depth, columns, launches",
    [
        (300, 300, 300, 1),
        (64, 512, 512, 1),
        (1024, 1024, 1024, 2),
        (32, 1024, 1024, 1),
        (2000, 300, 300, 2),
    ],
)
def test_an_operand_is_packed_at_run_time_where_that_is_repaid(rows, depth, columns, launches):
    made = group(Kind.DOT, matmul(rows, columns, depth))
    assert len(table.lower(made, TARGETS["avx512"], "kernel").launches) == launches


def test_an_operand_is_read_where_it_lies():
    target = replace(TARGETS["avx512"], l1_bytes=64, l2_bytes=1 << 16)
    made = group(Kind.DOT, matmul(20, 67, 33))
    assert len(table.lower(made, target, "kernel").launches) == 1
    agree(made, target)
