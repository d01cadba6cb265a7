"""Convolutions at points by default: a result is what the direct sum gives, whatever lies beside
its window.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, cpu, group, meaning, param, values
from test_winograd import SIZES

from xlac.codegen.cpu.conv.winograd import accuracy_guard, choose, direct_tiles
from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

F32 = DType.F32
SIZE = (1, 6, 6, 16)  # nine tiles: the one in the middle sees x[1:5, 1:5]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiplies at points whatever that costs."""
    monkeypatch.setattr(choose, "sides", lambda target: (2,))
    monkeypatch.setattr(choose, "pays", lambda tiling, target: True)


def conv(
    x: tuple[int, ...] = SIZE, columns: int = 16, low: int = 1, high: int = 1, kind: str = "weight"
) -> Node:
    op = Conv(
        layout=("NHWC", "HWIO", "NHWC"),
        strides=(1, 1),
        low=(low, low),
        high=(high, high),
        lhs_dilation=(1, 1),
        rhs_dilation=(1, 1),
    )
    return Node.of(
        op, param("x", Type(F32, x)), param("kernel", Type(F32, (3, 3, x[3], columns)), kind)
    )


def alike(made: Node, given: dict[str, Array], target: Target = TARGETS["avx512"]) -> None:
    """The kernels give infinities and NaN where the definition does, and else what is within 2^-20
    of the largest pixel of the result's own window times the sum of its weights."""
    grouped = group(Kind.CONV, made)
    (got,) = compute(grouped, target, given)
    with np.errstate(all="ignore"):
        (want,) = meaning(grouped, given)
        (exact,) = meaning(
            grouped, {name: array.astype(np.float64) for name, array in given.items()}
        )
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    (low, _), size = made.op.low, given["x"].shape  # type: ignore[attr-defined]
    around = np.pad(np.nan_to_num(np.abs(given["x"]).max(3)), ((0, 0), (low, low), (low, low)))
    window = np.max(
        [around[:, i : i + size[1], j : j + size[2]] for i, j in product(range(3), repeat=2)], 0
    )
    bound = 2.0**-20 * window[..., None] * np.nan_to_num(np.abs(given["kernel"])).sum((0, 1, 2))
    assert (np.abs(got[finite] - exact[finite]) <= bound[finite]).all()


def test_one_pixel_of_a_tile() -> None:
    """Every value at every place of the tile in the middle of an image of its own: at every kind of
    place of those around it.
    """
    plants = list(product((np.inf, -np.inf, np.nan, 3e38, 1e12, 30.0), range(1, 5), range(1, 5)))
    made = conv((len(plants), *SIZE[1:]))
    given = values(group(Kind.CONV, made))
    for image, (value, y, x) in zip(given["x"], plants, strict=True):
        image[y, x, (y * 4 + x) % 16] = value
    alike(made, given, cpu())


@pytest.mark.parametrize("kind", ["weight", "input"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38, 1e33], ids=str)
@pytest.mark.sampled(4)
def test_weights(value: float, kind: str) -> None:
    made = conv(kind=kind)
    given = values(group(Kind.CONV, made))
    given["x"][:, :3] = 0
    given["kernel"][1, 2, 3, 4] = value
    alike(made, given)


@pytest.mark.parametrize("kind", ["weight", "input"])
def test_pixels_and_weights_that_are_nothing(kind: str) -> None:
    made = conv(kind=kind)
    given = values(group(Kind.CONV, made))
    alike(made, given | {"x": np.zeros_like(given["x"])})
    alike(made, given | {"kernel": np.zeros_like(given["kernel"])})


@pytest.mark.parametrize(
    ("value", "tiles"),
    [(4.0, []), (16.0, [(0, 1), (1, 0), (1, 1)]), (np.inf, [(0, 0), (0, 1), (1, 0), (1, 1)])],
    ids=str,
)
def test_only_tiles_that_must_are_summed_directly(
    value: float, tiles: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the four that see x[1, 1] it is in the window of all results of one. A direct sum that
    adds nothing shows where it is.
    """
    monkeypatch.setattr(direct_tiles, "multiply_add", lambda target, a, b, total: total)
    made = group(Kind.CONV, conv())
    given = values(made)
    given["x"][:] = np.sign(given["x"])
    given["x"][0, 1, 1, 0] = value
    (got,) = compute(made, TARGETS["avx512"], given)
    seen = [
        (y, x)
        for y, x in product(range(3), repeat=2)
        if not got[0, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].any()
    ]
    assert seen == tiles


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums every tile directly that is not 0."""
    monkeypatch.setattr(accuracy_guard, "SPREAD", 0.0)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sampled(6)
def test_the_direct_sum_of_tiles(size: str) -> None:
    x, columns, low, high = SIZES[size]
    agree(group(Kind.CONV, conv(x, columns, low, high)), TARGETS["avx512"])


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("name", ["avx2", "sse"])
def test_the_direct_sum_on_other_machines(name: str) -> None:
    agree(group(Kind.CONV, conv((1, 6, 5, 16), 32)), TARGETS[name])


@pytest.mark.usefixtures("direct")
def test_the_direct_sum_of_weights_and_pixels_that_lie_otherwise() -> None:
    x, kernel = (
        param("x", Type(F32, (1, 16, 5, 6))),
        param("kernel", Type(F32, (32, 16, 3, 3)), "weight"),
    )
    anchor = Node.of(
        conv((1, 5, 6, 16), 32).op,
        build.transpose(x, (0, 2, 3, 1)),
        build.transpose(kernel, (2, 3, 1, 0)),
    )
    agree(group(Kind.CONV, anchor), TARGETS["avx512"])


@pytest.mark.usefixtures("direct")
def test_a_residual_that_is_x_is_not_overwritten() -> None:
    anchor = conv()
    made = group(Kind.CONV, build.maximum(build.add(anchor, anchor.inputs[0]), 0.0))
    made = replace(made, anchor=anchor)
    assert not lower(made, TARGETS["avx512"], "kernel").in_place
    agree(made, TARGETS["avx512"])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.sampled(4)
def test_on_this_machine(threads: int) -> None:
    """Tiles of both kinds, with what follows."""
    anchor = conv((2, 29, 30, 32), 48)
    bias = build.add(anchor, param("bias", Type(F32, (48,)), "weight"))
    made = group(
        Kind.CONV, anchor, build.maximum(build.add(bias, param("residual", anchor.type)), 0.0)
    )
    given = values(made)
    given["x"][0, 7, 9, 3], given["x"][1, 28, 29, 0], given["x"][1, 0, 0, 5] = (
        np.inf,
        np.nan,
        -np.inf,
    )
    (got,), (want,) = compute(made, cpu(threads), given), meaning(made, given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-4)
