"""What dot products read, and what follows them: views, weights, epilogues, places of results."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_harness import TARGETS, agree, group, param
from dot_groups import F32, _layer, matmul

from xlac.codegen import lower as table
from xlac.codegen.core.lowered_group import PackedConstant, Scratch
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor import view
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Shuffle, statements
from xlac_sdk.kernel_ir.sharing import roots, walk


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


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("sizes", [(1, 128, 64), (9, 21, 33), (30, 70, 20)])
@pytest.mark.sampled(6)
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


@pytest.mark.parametrize(
    "rows, depth, columns, threads, right",
    [
        (300, 300, 300, 1, "direct"),
        (64, 512, 512, 1, "panel"),  # packed once, right before it is used
        (32, 1024, 1024, 1, "panel"),
        (1024, 512, 1024, 1, "panel"),
        (2000, 300, 300, 1, "panel"),
        (1024, 512, 1024, 2, "panel"),
        (1024, 512, 640, 4, "running"),  # not as many panels for each thread
        (2048, 2048, 2048, 1, "running"),  # a panel takes more than a quarter of the cache
    ],
)
def test_an_operand_is_packed_at_run_time_where_that_is_repaid(
    rows, depth, columns, threads, right
):
    decisions = Decisions("kernel")
    target = replace(TARGETS["avx512"], threads=threads)
    made = group(Kind.DOT, matmul(rows, columns, depth))
    launches = table.lower(made, target, "kernel", decisions).launches
    assert decisions.settled["main"].right == right
    assert len(launches) == 1 + (right == "running")


@pytest.mark.parametrize(
    "rows, depth, columns, threads, parallel",
    [
        (1, 256, 768, 2, True),  # a step of a recurrent network: it takes as long as its weights
        (1, 64, 256, 2, False),
        (48, 64, 64, 2, True),  # 1.7 us
        (48, 64, 64, 8, False),
        (1024, 64, 64, 8, True),
    ],
)
def test_products_are_shared_that_take_longer_than_a_job(rows, depth, columns, threads, parallel):
    made = group(Kind.DOT, matmul(rows, columns, depth))
    target = replace(TARGETS["avx512"], threads=threads)
    kernel = table.lower(made, target, "kernel").launches[-1].kernel
    assert (kernel.parallel is not None) == parallel
    if kernel.parallel:
        turns = kernel.parallel.stop.value - kernel.parallel.start.value
        assert turns // kernel.parallel.grain >= threads  # a part for each


def test_an_operand_is_read_where_it_lies():
    target = TARGETS["avx512"].with_facts(l1_bytes=64, l2_bytes=1 << 16)
    made = group(Kind.DOT, matmul(20, 67, 33))
    assert len(table.lower(made, target, "kernel").launches) == 1
    agree(made, target)


@pytest.mark.parametrize("columns", [16, 57, 96, 115])
def test_code_that_packs_along_the_sum_does_not_grow_with_the_panel(columns):
    made = group(Kind.DOT, matmul(200, columns, 83, turned=(False, True)))
    packing, *_ = table.lower(made, TARGETS["avx512"], "kernel").launches
    squares = 1 + (columns > 16 and columns % 16 > 0)  # whole ones, and one of some columns
    shuffles = sum(
        isinstance(one, Shuffle)
        for stmt in statements(packing.kernel.body)
        for one in walk(roots(stmt))
    )
    assert shuffles <= 2 * squares * 16 * 4  # for panels of two widths
    agree(made, TARGETS["avx512"])
