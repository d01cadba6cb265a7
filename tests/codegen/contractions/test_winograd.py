"""Convolutions by fewer multiplications: right for every size, as accurate as documented, and only
where they pay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, cpu, group, meaning, param, program, values
from schedule_draws import lowered

from xlac.codegen.cpu.conv.winograd import choose, toom_cook
from xlac.codegen.cpu.conv.winograd.tiling import Tiling
from xlac.codegen.lower import lower
from xlac.codegen.schedules.conv import WinogradSchedule
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.gemm import GemmSchedule
from xlac.fusion.group import Kind
from xlac.ir.dims import Dim, Sym, Symbol
from xlac.ir.graph import Node, apply
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

F32 = DType.F32
FAST = {name: replace(TARGETS[name], fast=True) for name in ("avx512", "avx2", "sse")}


def conv(
    x: tuple[Dim, ...],
    columns: int,
    *,
    low: int = 1,
    high: int = 1,
    kind: str = "weight",
    dtype: DType = F32,
    **given: object,
) -> Node:
    attributes = {
        "layout": ("NHWC", "HWIO", "NHWC"),
        "strides": (1, 1),
        "low": (low, low),
        "high": (high, high),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
    } | given
    groups = attributes.get("feature_groups", 1)
    kernel = (3, 3, x[3] // groups if isinstance(groups, int) else 0, columns)
    return Node.of(
        Conv(**attributes), param("x", Type(dtype, x)), param("kernel", Type(dtype, kernel), kind)
    )


def forced(monkeypatch: pytest.MonkeyPatch, results: int) -> None:
    """Takes tiles of this many results whatever they cost."""
    monkeypatch.setattr(choose, "sides", lambda target: (results,))
    monkeypatch.setattr(choose, "pays", lambda tiling, target: True)


def chosen(anchor: Node, target: Target) -> Tiling | None:
    """The tiling of a convolution that is computed by Winograd's algorithm; None for others."""
    able = choose.tilings(anchor, target)
    best = choose.cheapest(able, target) if able else None
    return best if best is not None and choose.pays(best, target) else None


@pytest.mark.parametrize("results", toom_cook.POINTS)
def test_the_matrices_multiply_polynomials(results: int) -> None:
    a, g, b = toom_cook.matrices(results)
    rng = np.random.default_rng(0)
    x, taps = rng.standard_normal(results + 2), rng.standard_normal(3)
    np.testing.assert_allclose(
        a @ ((g @ taps) * (b @ x)), np.correlate(x, taps, "valid"), atol=1e-13
    )


SIZES = {
    "whole tiles": ((1, 8, 8, 16), 16, 1, 1),
    "odd sizes": ((1, 7, 9, 16), 32, 1, 1),
    "batches": ((3, 5, 4, 16), 16, 1, 1),
    "no padding": ((1, 6, 7, 16), 16, 0, 0),
    "much padding": ((1, 3, 2, 16), 16, 3, 2),
    "cropped": ((1, 9, 9, 16), 16, -1, -2),
    "one pixel": ((1, 1, 1, 32), 48, 1, 1),
    "panels": ((1, 4, 4, 16), 112, 1, 1),
}


@pytest.mark.parametrize("results", toom_cook.POINTS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sampled(8)
def test_sizes(size: str, results: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, results)
    x, columns, low, high = SIZES[size]
    agree(group(Kind.CONV, conv(x, columns, low=low, high=high)), FAST["avx512"])


@pytest.mark.parametrize("name", ["avx2", "sse"])
def test_targets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, 4)
    agree(group(Kind.CONV, conv((1, 6, 5, 16), 32)), FAST[name])


def after(anchor: Node, what: str) -> Node:
    bias = build.add(anchor, param("bias", Type(F32, anchor.shape[-1:]), "weight"))
    if what == "residual":
        return build.maximum(build.add(bias, param("residual", anchor.type)), 0.0)
    if what == "a long chain":
        return build.sqrt(build.exp(build.minimum(bias, 2.0)))
    return build.transpose(bias, (0, 3, 1, 2))


@pytest.mark.parametrize("what", ["residual", "a long chain", "channels first"])
def test_what_follows_is_computed_on_results(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, 4)
    anchor = conv((2, 6, 5, 16), 16)
    made = group(Kind.CONV, anchor, after(anchor, what))
    agree(made, FAST["avx512"])


def test_channels_first_and_a_kernel_that_lies_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, 2)
    x, kernel = (
        param("x", Type(F32, (1, 16, 5, 6))),
        param("kernel", Type(F32, (32, 16, 3, 3)), "weight"),
    )
    op = conv((1, 5, 6, 16), 32).op
    anchor = Node.of(op, build.transpose(x, (0, 2, 3, 1)), build.transpose(kernel, (2, 3, 1, 0)))
    agree(group(Kind.CONV, anchor), FAST["avx512"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.sampled(4)
def test_on_this_machine(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, 4)
    agree(group(Kind.CONV, conv((2, 29, 30, 64), 96)), replace(cpu(threads), fast=True))


@pytest.mark.parametrize(("results", "bits"), [(2, 24), (4, 22)])
def test_errors_against_the_largest_pixel(
    results: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/SPEC.md says of `precision: fast`: in parts of the largest pixel times the sum of the
    weights' magnitudes.
    """
    forced(monkeypatch, results)
    made = group(Kind.CONV, conv((1, 24, 24, 128), 64))
    given = values(made)
    (exact,) = meaning(made, {name: array.astype(np.float64) for name, array in given.items()})
    (got,) = compute(made, replace(cpu(), fast=True), given)
    assert exact.dtype == np.float64
    most = np.abs(given["kernel"]).sum((0, 1, 2)).max() * np.abs(given["x"]).max()
    assert np.abs(got - exact).max() < 2.0**-bits * most


LARGE = (1, 56, 56, 64)
DECLINED = {
    "strided": conv(LARGE, 64, strides=(2, 2)),
    "dilated": conv(LARGE, 64, rhs_dilation=(2, 2)),
    "spread": conv(LARGE, 64, lhs_dilation=(2, 2)),
    "grouped": conv(LARGE, 64, feature_groups=2),
    "half": conv(LARGE, 64, dtype=DType.F16),
    "doubles": conv(LARGE, 64, dtype=DType.F64),
    "odd channels": conv((1, 56, 56, 60), 64),
    "odd columns": conv(LARGE, 60),
    "open": conv((Sym((((Symbol("batch", 1, 8, 4),), 1),)), 56, 56, 64), 64),
    "weights that memory brings too late": conv((1, 7, 7, 512), 512),
}


@pytest.mark.parametrize("name", DECLINED)
def test_other_forms_are_left_to_the_direct_sum(name: str) -> None:
    assert chosen(DECLINED[name], FAST["avx512"]) is None


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse"])
@pytest.mark.parametrize("how", ["forward", "backward", "as they are"])
@pytest.mark.sampled(6)
def test_weights_that_are_not_known_while_compiling(
    how: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As layers keep them, in the product and in the gradient for its data."""
    forced(monkeypatch, 2)
    anchor = conv((2, 6, 5, 16), 48, kind="input")
    if how != "as they are":
        axes, shape = (
            ((2, 3, 1, 0), (48, 16, 3, 3)) if how == "forward" else ((2, 3, 0, 1), (16, 48, 3, 3))
        )
        kernel = build.transpose(param("kernel", Type(F32, shape)), axes)
        if how == "backward":
            turned = {"starts": (2, 2, 0, 0), "stops": (-1, -1, 16, 48), "steps": (-1, -1, 1, 1)}
            kernel = apply("slice", kernel, **turned)
        anchor = Node.of(anchor.op, anchor.inputs[0], kernel)
    made = group(Kind.CONV, anchor)
    found = lowered(made, TARGETS[name])
    assert found is not None
    assert [one.kernel.name for one in found.launches] == ["kernel_pack", "kernel_points", "kernel"]
    agree(made, TARGETS[name])


def test_four_results_a_side_where_tiles_are_many_two_where_they_are_few() -> None:
    target = FAST["avx512"]
    many, few = (chosen(conv(LARGE, 64), target), chosen(conv((1, 6, 6, 64), 64), target))
    assert many is not None and few is not None
    assert (many.results, few.results) == (4, 2)


def test_by_default_only_two_results_a_side_and_guarded() -> None:
    default, fast = (
        chosen(conv(LARGE, 64), target) for target in (TARGETS["avx512"], FAST["avx512"])
    )
    assert default is not None and fast is not None
    assert (default.results, default.guarded, fast.guarded) == (2, True, False)


@pytest.mark.parametrize(
    "target", [replace(TARGETS["avx512"], size=True), TARGETS["scalar"]], ids=["size", "scalar"]
)
@pytest.mark.parametrize("fast", [False, True])
def test_not_for_small_code_nor_for_scalars(target: Target, fast: bool) -> None:
    made = group(Kind.CONV, conv(LARGE, 64))
    target = replace(target, fast=fast)
    assert chosen(made.anchor, target) is None
    weights = {"kernel": np.zeros((3, 3, 64, 64), np.float32)}
    assert not any(
        "points" in step.kernel.name
        for step in program(made, target, weights).steps
        if hasattr(step, "kernel")
    )


def test_quantised_weights_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, 2)
    anchor = conv((1, 8, 8, 16), 16)
    small = param("small", Type(DType.I8, (3, 3, 16, 16)), "weight")
    made = group(Kind.CONV, Node.of(anchor.op, anchor.inputs[0], build.cast(small, F32)))
    weights = {"small": np.zeros((3, 3, 16, 16), np.int8)}
    assert not any(
        "points" in step.kernel.name
        for step in program(made, TARGETS["avx512"], weights).steps
        if hasattr(step, "kernel")
    )


def test_a_gemm_may_be_asked_for_in_its_place_and_the_other_way_round() -> None:
    target = TARGETS["avx512"]
    made = group(Kind.CONV, conv((1, 9, 9, 16), 16))
    large = group(Kind.CONV, conv(LARGE, 64))
    gemm, winograd = (lowered(g, replace(target, fast=True)) for g in (made, large))
    assert gemm is not None and winograd is not None
    first, second = gemm.schedules["main"], winograd.schedules["main"]
    assert isinstance(first, GemmSchedule) and isinstance(second, WinogradSchedule)
    with pytest.raises(PartMisfit, match="it must be 2 at this precision"):
        lower(made, target, "kernel", Decisions("kernel", {"main": replace(second, results=4)}))
    tile = replace(second.tile, rows=(1, 5), vectors=1)
    small = replace(second, results=2, block=1, chunk=16, tile=tile)
    swapped = lowered(made, target, {"main": small})
    assert swapped is not None and swapped.launches[0].kernel.name == "kernel_points"
    again = lowered(large, target, {"main": replace(first, backward=False)})
    assert again is not None
    names = [launch.kernel.name for launch in again.launches]
    assert (names[0], names[-1]) == ("kernel_pad", "kernel")
