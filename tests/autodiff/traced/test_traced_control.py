"""Loops, branches and declared gradients in traced functions, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

RNG = np.random.default_rng(0)


W, H, XS = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=3), RNG.normal(size=(5, 3))


def test_switch() -> None:
    f = xlac.jit(
        lambda n, x: xlac.switch(n, [lambda x: x, lambda x: x * x, lambda x: 0.0 * x], x),
        target="reference",
    )
    assert [float(f(np.int32(n), np.float64(3.0))) for n in (0, 1, 2, 7)] == [3.0, 9.0, 0.0, 0.0]


def test_a_loop_of_no_gradient_has_a_value() -> None:
    f = lambda x: xlac.while_loop(lambda c: c < 100.0, lambda c: c * 2.0, x)
    assert float(xlac.jit(f, target="reference")(np.float64(3.0))) == 192.0
    assert float(xlac.jvp(f, (np.float64(3.0),), (np.float64(1.0),))[1]) == 64.0
    with pytest.raises(SourceError, match=r"XL2042"):
        xlac.grad(f)(np.float64(3.0))


def clipped(cotangent: Any, y: Any, x: Any, most: Any) -> Any:
    return xlac.clip(cotangent, min=-1.0, max=1.0) * most, None


@pytest.fixture
def rounded() -> Any:
    """Rounds forwards, passes changes through."""
    return xlac.custom_gradient(lambda x: xlac.round(x * 4.0) / 4.0, lambda ct, y, x: (ct,))


def test_straight_through(rounded: Any) -> None:
    x = np.float64([0.3, -1.2])

    def run(x: Any) -> Any:
        f = lambda x: xlac.sum(rounded(x) ** 2)
        return (
            f(x),
            xlac.grad(f)(x),
            xlac.jvp(f, (x,), (x,))[1],
            xlac.vmap(xlac.grad(f))(x.reshape(2, 1)),
        )

    value, slope, change, each = xlac.jit(run, target="reference")(x)
    assert value == 0.25**2 + 1.25**2
    np.testing.assert_allclose(slope, [0.5, -2.5])
    np.testing.assert_allclose(each, [[0.5], [-2.5]])
    assert change == pytest.approx(0.5 * 0.3 + 2.5 * 1.2)


def test_gradient_of_a_nest_in_a_loop() -> None:
    """Within a scan, with an integer, a number and a value from around it."""

    def scaled(p: Any, n: Any, most: Any) -> Any:
        return {"y": p["x"] * n.astype("f64") * most, "n": n + 1}

    def back(ct: Any, result: Any, p: Any, n: Any, most: Any) -> Any:
        assert ct["n"] is None
        return {"x": ct["y"] * 10.0}, None, 0.0

    f = xlac.custom_gradient(scaled, back)

    def loss(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            made = f({"x": carry[0] + row}, carry[1], 0.5)
            return (made["y"], made["n"]), None

        (last, _), _ = xlac.scan(step, (x[0], 1), x)
        return last

    x = np.float64([1.0, 2.0])
    value, slope = xlac.jit(xlac.value_and_grad(loss), target="reference")(x)
    assert value == ((1.0 + 1.0) * 0.5 + 2.0) * 2 * 0.5
    np.testing.assert_array_equal(slope, [200.0, 10.0])


def test_a_gradient_that_is_not_linear_has_only_the_way_back() -> None:
    f = xlac.custom_gradient(lambda x, most: x * 1.0, clipped)
    g = xlac.jit(xlac.grad(lambda x: xlac.sum(f(x, 0.5) * x)), target="reference")
    np.testing.assert_allclose(g(np.float64([3.0, 0.5])), [3.5, 0.75])
    with pytest.raises(SourceError, match="XL2042"):
        xlac.jvp(lambda x: f(x, 0.5), (np.float64(1.0),), (np.float64(1.0),))


MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no pair": (lambda x: xlac.scan(lambda c, r: c, x[0], x), "must return a pair.*XL2035"),
    "no length": (lambda x: xlac.scan(lambda c, r: (c, c), x[0]), "the number of steps.*XL2035"),
    "two lengths": (
        lambda x: xlac.scan(lambda c, r: (c, c), x[0], x, length=3),
        "2 and 3 steps.*XL2035",
    ),
    "a number scanned": (lambda x: xlac.scan(lambda c, r: (c, c), x, 3.0), "no slices.*XL2035"),
    "another type": (
        lambda x: xlac.scan(lambda c, r: (r, None), x[0, 0], x),
        r"carry is f64\[\], and a step makes it f64\[2\].*XL2035",
    ),
    "another nest": (
        lambda x: xlac.while_loop(lambda c: c[0] > 0, lambda c: c[0], (x[0, 0],)),
        "another nest.*XL2035",
    ),
    "no bool": (
        lambda x: xlac.while_loop(lambda c: c, lambda c: c, x[0, 0]),
        "no bool scalar.*XL2035",
    ),
    "no end": (
        lambda x: xlac.while_loop(lambda c: x[0, 0] > 0, lambda c: c * 0.5, x[0, 0]),
        "XL2018",
    ),
    "branches differ": (
        lambda x: xlac.cond(x[0, 0] > 0, lambda: x, lambda: x[0]),
        r"f64\[2\] and f64\[2, 2\].*XL2035",
    ),
    "nests differ": (
        lambda x: xlac.cond(x[0, 0] > 0, lambda: (x, x), lambda: x),
        "nests that differ.*XL2035",
    ),
    "a row of bools": (
        lambda x: xlac.cond(x[0] > 0, lambda: x, lambda: x),
        "a bool scalar.*XL2035",
    ),
    "a float index": (lambda x: xlac.switch(x[0, 0], [lambda: x]), "an integer scalar.*XL2035"),
    "no branch": (lambda x: xlac.switch(0, []), "no branch.*XL2035"),
    "one cotangent of two": (
        lambda x: xlac.custom_gradient(lambda a, b: a * b, lambda ct, y, a, b: (ct,))(x, x),
        "XL2043",
    ),
    "another cotangent": (
        lambda x: xlac.custom_gradient(lambda a: a * 1.0, lambda ct, y, a: (ct[0],))(x),
        r"XL2043",
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call, told = MISTAKES[mistake]
    with pytest.raises(SourceError, match=told):
        xlac.jit(call, target="reference")(np.ones((2, 2)))


def test_outside_of_traced_functions() -> None:
    for call in (
        lambda: xlac.scan(lambda c, x: (c, x), 0.0, XS),
        lambda: xlac.while_loop(lambda c: c > 0, lambda c: c - 1, 3.0),
        lambda: xlac.cond(np.bool_(True), lambda: 1, lambda: 2),
        lambda: xlac.switch(0, [lambda: 1]),
        lambda: xlac.custom_gradient(lambda x: x, lambda ct, y, x: (ct,))(XS),
    ):
        with pytest.raises(TypeError, match="inside a function"):
            call()
