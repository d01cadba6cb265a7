"""Kernels for a target with little memory for temporaries: smaller ones, and the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import TARGETS, compute, conv, cpu, group, param, program, run, values
from schedule_draws import lowered, matmul

from xlac.codegen.cpu.conv.winograd import choose, weight_gradient_choice
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gemm import GemmSchedule
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType


def transposed(m: int, n: int, k: int) -> Group:
    """A gradient for weights: both operands have the sum as their first axis."""
    x, ct = (param(name, Type(DType.F32, (k, size))) for name, size in (("x", m), ("ct", n)))
    return group(Kind.DOT, Node.of(Dot(contract_lhs=(0,), contract_rhs=(0,)), x, ct))


def images(batch: int) -> Group:
    return group(Kind.CONV, conv((batch, 12, 12, 16), (3, 3, 16, 32), pad=1, kind="input"))


PRODUCTS: dict[str, Callable[[], Group]] = {
    "packed": lambda: group(Kind.DOT, matmul(40, 75, 33, turned=True)),
    "whole panels": lambda: group(Kind.DOT, matmul(64, 64, 32, turned=True)),
    "long sums": lambda: group(Kind.DOT, matmul(130, 72, 3100, turned=True)),
    "gradient": lambda: transposed(1024, 130, 64),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_take_no_copy_of_an_operand(name: str, threads: int) -> None:
    made, target = PRODUCTS[name](), cpu(threads)
    given = values(made)
    little = replace(target, temporary_bytes=64)
    usual, small = (program(made, one, {}) for one in (target, little))
    assert small.arena_bytes == 0
    np.testing.assert_array_equal(run(small, little, given), run(usual, target, given))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_copy_an_operand_where_there_is_memory(name: str) -> None:
    """On one processor: others may pack panel by panel anyway."""
    assert program(PRODUCTS[name](), replace(TARGETS["avx512"], threads=2), {}).arena_bytes > 0


def test_a_panel_is_packed_where_it_is_used() -> None:
    made, target = PRODUCTS["packed"](), replace(TARGETS["avx512"], temporary_bytes=64)
    (launch,) = lower(made, target, "kernel", Decisions("kernel", {})).launches
    assert len(launch.arguments) == 3
    given = values(made)
    usual = compute(made, TARGETS["avx512"], given)
    np.testing.assert_array_equal(compute(made, target, given), usual)


def test_a_long_sum_is_packed_chunk_by_chunk() -> None:
    little, decisions = replace(TARGETS["avx512"], temporary_bytes=64), Decisions("kernel", {})
    lower(PRODUCTS["long sums"](), little, "kernel", decisions)
    chosen = decisions.settled["main"]
    assert isinstance(chosen, GemmSchedule)
    assert chosen.right == "panel" and 0 < chosen.blocking.chunk < 3100


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize(
    "columns, most, parts", [(32, 32, (1, 3)), (64, 32, (2, 3)), (32, 1, (2, 3))]
)
@pytest.mark.sampled(6)
def test_tiles_of_some_channels(
    guarded: bool, columns: int, most: int, parts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_gradient_choice, "pays", lambda tiling, target: True)
    target = replace(cpu(), fast=not guarded)
    made = group(Kind.CONV, conv((48, 12, 12, 2), (12, 12, 2, columns), pad=1, kind="input"))
    tiling = weight_gradient_choice.tiling(made.anchor, target)
    assert tiling is not None and tiling.channels == 48
    channel = tiling.tiles * tiling.points * 4
    little = replace(target, temporary_bytes=channel * most + 2048)
    if target.lanes(DType.F32) == 16:
        across = tiling.parts(16, little.temporary_bytes)
        assert (len(across), len(across[0])) == parts
    usual, small = (program(made, one, {}) for one in (target, little))
    assert small.arena_bytes < usual.arena_bytes - channel * 16
    given = values(made)
    given["x"][5, 3, 3, 0] = np.inf
    np.testing.assert_array_equal(run(small, little, given), run(usual, target, given))


@pytest.mark.parametrize("batch", [1, 4, 6])
def test_tiles_of_a_part_of_the_batch(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "pays", lambda tiling, target: True)
    made, target = images(batch), cpu()
    (tiling,) = choose.tilings(made.anchor, target)
    whole = tiling.transformed * 4
    little = replace(target, temporary_bytes=whole // 2)
    usual, small = (program(made, one, {}) for one in (target, little))
    assert small.arena_bytes < usual.arena_bytes - whole // 3 or batch == 1
    given = values(made)
    np.testing.assert_array_equal(run(small, little, given), run(usual, target, given))


def test_a_gradient_for_weights_is_stored_where_it_belongs() -> None:
    anchor = conv((16, 5, 5, 2), (3, 3, 2, 32), kind="input")
    made = group(Kind.CONV, anchor, build.transpose(anchor, (3, 0, 1, 2)))
    target = cpu().with_facts(l2_bytes=16 << 10)
    little = replace(target, temporary_bytes=64)
    whole = anchor.type.size * 4
    usual, small = (program(made, one, {}) for one in (target, little))
    assert small.arena_bytes <= usual.arena_bytes - whole
    given = values(made)
    np.testing.assert_array_equal(run(small, little, given), run(usual, target, given))


def of_kernel(rows: int, threads: int = 1, columns: int = 2048) -> GemmSchedule:
    """The schedule of a product of few rows and a matrix whose rows are 8 KB apart."""
    target = replace(TARGETS["avx512"], threads=threads)
    made = lowered(group(Kind.DOT, matmul(rows, columns, 512)), target)
    assert made is not None
    schedule = dict(made.schedules)["main"]
    assert isinstance(schedule, GemmSchedule)
    return schedule


def test_a_panel_whose_rows_evict_each_other_is_packed_before_its_tiles() -> None:
    assert of_kernel(49).right == "panel"
    assert of_kernel(14).right == "direct"  # one tile reads it
    assert of_kernel(49, columns=96).right == "direct"  # it stays
    assert of_kernel(49, threads=64).right == "direct"  # too few panels for the threads
