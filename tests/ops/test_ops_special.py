"""Special functions against SciPy, in f32 and in f64, through the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from xlac import compile
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType

LINE = np.concatenate(
    [np.linspace(-12.3, 12.4, 400), np.geomspace(1e-6, 80.0, 60), [0.0, 1.0, -1.0, np.inf, np.nan]]
)
POSITIVE = np.concatenate([np.linspace(0.1, 20.0, 300), np.geomspace(1e-3, 1e3, 60)])
UNIT = np.concatenate([np.linspace(-0.999, 0.999, 300), [1.0, -1.0, 1.5, 0.0, 1e-7, 0.9999999]])
ORDERS = np.repeat([1.5, 2.0, 3.0, 7.0, 20.5], 72)
CASES: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "erfc": (scipy.special.erfc, (LINE,)),
    "gelu_slope": (
        lambda x: (
            scipy.special.ndtr(x) + np.clip(x, -40, 40) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        ),
        (np.concatenate([LINE, np.linspace(-1.5, 1.5, 301), [1e-7, -1e-300]]),),
    ),
    "erf_inv": (scipy.special.erfinv, (UNIT,)),
    "lgamma": (scipy.special.gammaln, (LINE,)),
    "digamma": (
        scipy.special.digamma,
        (np.concatenate([POSITIVE, np.linspace(-5.43, -0.07, 37)]),),
    ),
    "zeta": (scipy.special.zeta, (ORDERS, np.resize(POSITIVE, ORDERS.size))),
    "polygamma": (
        scipy.special.polygamma,
        (np.repeat([0.0, 1.0, 2.0, 3.0], 90), np.resize(POSITIVE, 360)),
    ),
    "bessel_i1e": (scipy.special.i1e, (LINE[:-2],)),
}


def run(name: str, *arrays: Array) -> Array:
    params = tuple(build.param(f"x{n}", DType.of(a.dtype), a.shape) for n, a in enumerate(arrays))
    return np.asarray(
        compile(Model(Graph(name, params, {"y": build.apply1(name, *params)}), {}), target="cpu")(
            *arrays
        )
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(8)
def test_it_agrees_with_scipy(name: str, dtype: type) -> None:
    reference, given = CASES[name]
    arrays = [a.astype(dtype) for a in given]
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(*(a.astype(np.float64) for a in arrays)))
        wanted = wanted.astype(dtype)
    # the series cancel near the roots of lgamma and digamma, and between the poles
    tolerance, floor = (3e-5, 3e-5) if dtype is np.float32 else (2e-12, 2e-12)
    np.testing.assert_allclose(
        run(name, *arrays), wanted, tolerance, floor if name in ("lgamma", "digamma") else 1e-37
    )


def test_zeta_below_zero() -> None:
    """It is what SciPy has above zero, and the terms on the way there; far below zero too."""
    q = np.concatenate([np.linspace(-30.4, -0.1, 61), [-0.99999, -7.000001]])
    q = q[q != np.floor(q)]
    x = np.repeat([2.0, 3.0, 6.0], ORDERS.size // 3)  # as long as above: the same program
    q = np.resize(q, x.size)
    below = (q + np.arange(40)[:, None] < 0) * (q + np.arange(40)[:, None]) ** -x
    wanted = scipy.special.zeta(x, q - np.floor(q)) + np.sum(below, axis=0)
    np.testing.assert_allclose(run("zeta", x, q), wanted, 2e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_next_after_is_numpys(dtype: type) -> None:
    with np.errstate(all="ignore"):
        points = np.array(
            [
                0.0,
                -0.0,
                1.0,
                -1.0,
                np.inf,
                -np.inf,
                np.nan,
                ml_dtypes.finfo(dtype).max,
                5e-324,
                1e-40,
            ],
            dtype,
        )
        x, y = (a.reshape(-1).copy() for a in np.meshgrid(points, points))
        wanted = np.nextafter(x, y)
    np.testing.assert_array_equal(
        run("next_after", x, y).astype(np.float64), wanted.astype(np.float64)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_exponential_of_softmax_is_subnormal(dtype: type) -> None:
    """What computes with subnormal numbers is many times slower on some processors."""
    tiny = float(np.finfo(dtype).tiny)
    edge = np.log(tiny)
    line = np.array([0, edge + 4, edge - 0.5, edge - 5, edge * 1.18, edge * 1.2, -1e4, -np.inf])
    x = np.tile(line, (3, 5)).astype(dtype)[:, :37]
    share = run("softmax", x)
    wanted = scipy.special.softmax(x.astype(np.longdouble), -1)
    assert ((share == 0) == (x < edge)).all()
    np.testing.assert_allclose(share, wanted.astype(np.float64), rtol=2e-6, atol=tiny)
