"""Gradients for the weights of 3x3 convolutions by fewer multiplications: right for every size, as
accurate as documented, and only where they pay.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, conv, cpu, group, meaning, param, values
from schedule_draws import lowered

from xlac.codegen.cpu.conv.winograd import toom_cook, weight_gradient_choice
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.error_bounds import SUMS, WINOGRAD_CHANNELS, WINOGRAD_GRADIENT
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

F32 = DType.F32
WIDTHS = ("avx512", "avx2", "sse")  # vectors of 64, 32 and 16 bytes


def gradient(
    channels: int,
    columns: int,
    batch: int,
    pixels: tuple[int, int],
    low: tuple[int, int] = (1, 1),
    high: tuple[int, int] = (1, 1),
    **given: object,
) -> Node:
    """The gradient for weights, as channels-last graphs have it: input channels are its batch, the
    batch is its channels, and the map of cotangents, of so many `pixels`, is its kernel.
    """
    around = zip(pixels, low, high, strict=True)
    height, width = (n + 2 - below - above for n, below, above in around)
    attributes = {"low": low, "high": high} | given
    x, kernel = (channels, height, width, batch), (*pixels, batch, columns)
    return conv(x, kernel, kind="input", **attributes)


def as_it_lies(node: Node) -> Group:
    """The same, of maps and a result as a network has them: batch, rows, columns, channels, and
    [out, in, rows, columns].
    """
    (channels, height, width, batch), (rows, lines, _, columns) = (i.shape for i in node.inputs)
    x = param("x", Type(F32, (batch, height, width, channels)))
    cotangents = param("kernel", Type(F32, (batch, rows, lines, columns)))
    operands = build.transpose(x, (3, 1, 2, 0)), build.transpose(cotangents, (1, 2, 0, 3))
    anchor = Node.of(node.op, *operands)
    return group(Kind.CONV, anchor, build.transpose(anchor, (3, 0, 1, 2)))


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes Winograd's way whatever it costs."""
    monkeypatch.setattr(weight_gradient_choice, "pays", lambda tiling, target: True)


def is_winograd(node: Node, target: Target) -> bool:
    """Whether a gradient is computed by Winograd's algorithm."""
    t = weight_gradient_choice.tiling(node, target)
    return t is not None and weight_gradient_choice.pays(t, target)


@pytest.mark.parametrize("results", toom_cook.POINTS)
def test_the_transposed_matrices_give_the_gradient_of_the_filter(results: int) -> None:
    a, g, b = toom_cook.matrices(results)
    rng = np.random.default_rng(0)
    x, cotangents = rng.standard_normal(results + 2), rng.standard_normal(results)
    np.testing.assert_allclose(
        g.T @ ((b @ x) * (a.T @ cotangents)), np.correlate(x, cotangents, "valid"), atol=1e-13
    )


SIZES = {
    "whole tiles": gradient(16, 16, 1, (8, 8)),
    "odd sizes": gradient(16, 32, 1, (7, 9)),
    "batches": gradient(32, 16, 3, (5, 4)),
    "no padding": gradient(16, 16, 2, (4, 5), (0, 0), (0, 0)),
    "much padding": gradient(16, 16, 1, (7, 6), (3, 2), (2, 3)),
    "cropped": gradient(16, 16, 1, (5, 5), (-1, 0), (0, -2)),
    "one side": gradient(16, 48, 1, (6, 5), (0, 2), (1, 0)),
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sampled(6)
@pytest.mark.usefixtures("forced")
def test_sizes(size: str, fast: bool) -> None:
    agree(group(Kind.CONV, SIZES[size]), replace(TARGETS["avx512"], fast=fast))


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.usefixtures("forced")
def test_maps_and_results_of_a_network(name: str) -> None:
    made = as_it_lies(gradient(16, 32, 2, (4, 5)))
    found = lowered(made, TARGETS[name])
    assert found is not None
    assert "kernel_products" in [one.kernel.name for one in found.launches]
    agree(made, TARGETS[name])


def drawn(random: Random, lanes: int) -> Node:
    """A gradient of random sizes."""
    channels, columns = (lanes * random.randint(1, 3) for _ in range(2))
    pixels = random.randint(4, 9), random.randint(4, 9)
    low, high = ((random.randint(-1, 2), random.randint(-1, 2)) for _ in range(2))
    return gradient(channels, columns, random.randint(1, 3), pixels, low, high)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(7)
@pytest.mark.usefixtures("forced")
def test_errors_of_random_gradients_are_within_the_documented_bound(seed: int) -> None:
    random = Random(seed)
    target = replace(TARGETS[random.choice(WIDTHS)], fast=random.random() < 0.3)
    made = group(Kind.CONV, drawn(random, target.lanes(F32)))
    given = values(made, seed)
    given["x"] *= 10.0 ** np.random.default_rng(seed).integers(-3, 4, given["x"].shape)
    (got,) = compute(made, target, given)
    (exact,) = meaning(made, {name: array.astype(np.float64) for name, array in given.items()})
    largest = np.abs(given["x"]).max((1, 2, 3))[:, None, None, None]
    weights = np.abs(given["kernel"]).sum((0, 1, 2))
    roundings = SUMS["dot"].cpu + WINOGRAD_CHANNELS
    bound = WINOGRAD_GRADIENT * roundings * 2.0**-24 * largest * weights
    assert (np.abs(got - exact) <= bound).all()


def test_errors_on_normal_data_are_at_most_three_times_those_of_the_direct_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = group(Kind.CONV, gradient(32, 32, 4, (14, 14)))
    given = values(made)
    (exact,) = meaning(made, {name: array.astype(np.float64) for name, array in given.items()})
    errors = []
    for able in (False, True):
        monkeypatch.setattr(weight_gradient_choice, "pays", lambda t, target, able=able: able)
        (got,) = compute(made, cpu(), given)
        errors.append(float(np.sqrt(np.square(got - exact).mean())))
    direct, winograd = errors
    assert winograd != direct
    assert winograd < 3 * direct


WILD = {"infinite": np.inf, "minus infinite": -np.inf, "NaN": np.nan, "large": 3e38}


def wild(what: str, operand: str, place: tuple[int, ...], given: dict[str, Array]) -> None:
    """Makes an element as large as `what`; beside a large one, cotangents are so small that only
    sums of pixels overflow.
    """
    given[operand][place] = WILD[what]
    if what == "large":
        given[operand][:] = 3e38
        other = "kernel" if operand == "x" else "x"
        given[other] *= 1e-30


@pytest.mark.parametrize("what", WILD)
@pytest.mark.parametrize(
    ("operand", "place"),
    [("x", (5, 3, 2, 1)), ("x", (0, 0, 0, 0)), ("x", (17, 5, 0, 1)), ("kernel", (2, 3, 0, 7))],
)
@pytest.mark.sampled(8)
@pytest.mark.usefixtures("forced")
def test_results_that_are_not_finite_are_those_of_the_definition(
    what: str, operand: str, place: tuple[int, ...]
) -> None:
    made = group(Kind.CONV, gradient(32, 16, 2, (6, 6)))
    given = values(made)
    wild(what, operand, place, given)
    (got,) = compute(made, TARGETS["avx512"], given)
    (exact,) = meaning(made, {name: array.astype(np.float64) for name, array in given.items()})
    settled = np.ones(got.shape, np.bool_)
    if operand == "kernel":  # where it meets an inserted zero, it may be left out
        settled[..., place[-1]] = False
    with np.errstate(over="ignore"):
        wanted = exact.astype(np.float32)
    assert np.isfinite(got[np.isfinite(wanted) & settled]).all()
    np.testing.assert_allclose(got[settled], wanted[settled], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("outputs", ["the gradient too", "the update"])
@pytest.mark.usefixtures("forced")
def test_what_follows_is_computed_on_results(outputs: str) -> None:
    anchor = gradient(16, 32, 1, (5, 6))
    weight = param("w", anchor.type)
    new = build.sub(weight, build.mul(anchor, 0.1))
    ends = (new, anchor) if outputs == "the gradient too" else (new,)
    agree(group(Kind.CONV, anchor, *ends), TARGETS["avx512"])


@pytest.mark.usefixtures("forced")
def test_bits_are_equal_at_any_number_of_threads() -> None:
    made = as_it_lies(gradient(64, 96, 2, (29, 30)))
    given = values(made)
    (one,), (two,) = (compute(made, cpu(threads), given) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    agree(made, cpu(2))


LARGE = gradient(64, 64, 1, (56, 56))
DECLINED = {
    "odd channels": gradient(60, 64, 1, (56, 56)),
    "odd columns": gradient(64, 60, 1, (56, 56)),
    "strided": conv((64, 56, 56, 1), (28, 28, 1, 64), low=(1, 1), dilation=2, kind="input"),
    "small maps": gradient(64, 64, 32, (3, 3)),
    "doubles": gradient(64, 64, 1, (56, 56), dtype=DType.F64),
    "results that are not 3 by 3": conv((64, 57, 57, 1), (56, 56, 1, 64), pad=1, kind="input"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_other_forms_are_left_to_the_direct_sum(name: str) -> None:
    op = DECLINED[name].op
    assert isinstance(op, Conv)
    assert not is_winograd(DECLINED[name], TARGETS["avx512"])


def test_where_it_pays() -> None:
    target = TARGETS["avx512"]
    assert is_winograd(LARGE, target)
    assert is_winograd(gradient(512, 512, 32, (4, 4)), target)
    assert not is_winograd(gradient(512, 512, 1, (4, 4)), target)  # more results than products
    assert not is_winograd(LARGE, replace(target, size=True))
    assert not is_winograd(LARGE, TARGETS["scalar"])
