"""Loops, branches and declared gradients in traced functions: their values, derivatives and batches beside
JAX's, and what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

RNG = np.random.default_rng(0)
W, H, XS = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=3), RNG.normal(size=(5, 3))


def rnn(m: Any, scan: Any, w: Any, h: Any, xs: Any) -> Any:
    """A nest is carried, the weights are read from around the step."""

    def step(carry: Any, x: Any) -> Any:
        h, n = carry["h"], carry["n"]
        h = m.tanh(w @ h + x)
        return {"h": h, "n": n + 1}, (h * h, m.sum(h))

    carry, (squares, sums) = scan(step, {"h": h, "n": m.sum(h)}, xs)
    return m.sum(squares * 0.5) + m.sum(carry["h"]) * carry["n"] + m.sum(sums)


def newton(m: Any, loop: Any, w: Any, h: Any, xs: Any) -> Any:
    """Steps until the norm of a row is small; the bound of the loop is around it."""
    bound = m.sum(h * h) * 1e-2

    def goes_on(carry: Any) -> Any:
        return m.sum(carry[0] ** 2) > bound

    def step(carry: Any) -> Any:
        return (m.tanh(w @ carry[0]) * 0.5, carry[1] + 1)

    return m.sum(loop(goes_on, step, (h, 0))[0])


def branches(m: Any, cond: Any, w: Any, h: Any, xs: Any) -> Any:
    """The root of what may be negative is in the branch that is taken then only."""
    total = m.sum(h)
    y = cond(total > 0, lambda: m.sqrt(total), lambda: m.sum(w) * 1.0)
    z = cond(total < 0, lambda v: m.sqrt(-total) * v, lambda v: v * 2.0, m.sum(xs))
    return y * z


def numbers(m: Any, scan: Any, w: Any, h: Any, xs: Any) -> Any:
    """A number that is carried takes the type of what is added to it."""
    total, _ = scan(lambda s, x: (s + m.sum(x * h), None), 0, xs)
    return total * m.sum(w)


def scanned_back(m: Any, scan: Any, w: Any, h: Any, xs: Any) -> Any:
    last, ys = scan(lambda c, x: (m.sin(c) + x, c * x), h, xs, reverse=True)
    return m.sum(last) + m.sum(ys * ys)


def bounded(condition: Any, body: Any, init: Any) -> Any:
    return xlac.while_loop(condition, body, init, max=30)


def unrolled(condition: Any, body: Any, init: Any) -> Any:
    """JAX's gradient of such a loop: one of a known number of steps."""
    step = lambda n, c: lax.cond(condition(c), body, lambda c: c, c)
    return lax.scan(lambda c, _: (step(0, c), None), init, None, length=30)[0]


CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "scan": (rnn, xlac.scan, lax.scan),
    "reverse": (scanned_back, xlac.scan, lax.scan),
    "while": (newton, bounded, unrolled),
    "cond": (branches, xlac.cond, lax.cond),
    "numbers": (numbers, xlac.scan, lambda f, s, xs: lax.scan(f, float(s), xs)),
}


def everything(m: Any, transforms: Any, f: Callable[..., Any]) -> Any:
    """The value, gradients, a change, and the gradient of each of two examples."""

    def run(w: Any, h: Any, xs: Any) -> Any:
        grad = transforms.grad(f)
        each = transforms.vmap(transforms.grad(f), in_axes=(None, 0, None))(w, m.stack([h, -h]), xs)
        changes = transforms.jvp(lambda h: m.sum(grad(w, h, xs)), (h,), (xs[0],))[1]
        return f(w, h, xs), grad(w, h, xs), changes, each

    return run


class Ours:
    """xlac's names as JAX has them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(xlac, name)

    def stack(self, parts: Any) -> Any:
        return xlac.concat(*(p.reshape(1, *p.shape) for p in parts), axis=0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_beside_jax(name: str) -> None:
    f, ours, theirs = CASES[name]
    found = xlac.jit(everything(Ours(), xlac, lambda *a: f(xlac, ours, *a)), target="reference")(W, H, XS)  # fmt: skip
    with jax.enable_x64(True):
        wanted = everything(jnp, jax, lambda *a: f(jnp, theirs, *a))(W, H, XS)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-12)


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


# ---- declared gradients -------------------------------------------------------------------------


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
        return f(x), xlac.grad(f)(x), xlac.jvp(f, (x,), (x,))[1], xlac.vmap(xlac.grad(f))(x.reshape(2, 1))  # fmt: skip

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


# ---- what is refused ----------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no pair": (lambda x: xlac.scan(lambda c, r: c, x[0], x), "no pair.*XL2035"),
    "no length": (lambda x: xlac.scan(lambda c, r: (c, c), x[0]), "how many steps.*XL2035"),
    "two lengths": (lambda x: xlac.scan(lambda c, r: (c, c), x[0], x, length=3), "2 and 3 steps.*XL2035"),
    "a number scanned": (lambda x: xlac.scan(lambda c, r: (c, c), x, 3.0), "no slices.*XL2035"),
    "another type": (lambda x: xlac.scan(lambda c, r: (r, None), x[0, 0], x), r"carry is f64\[\], and a step makes it f64\[2\].*XL2035"),
    "another nest": (lambda x: xlac.while_loop(lambda c: c[0] > 0, lambda c: c[0], (x[0, 0],)), "another nest.*XL2035"),
    "no bool": (lambda x: xlac.while_loop(lambda c: c, lambda c: c, x[0, 0]), "no bool scalar.*XL2035"),
    "no end": (lambda x: xlac.while_loop(lambda c: x[0, 0] > 0, lambda c: c * 0.5, x[0, 0]), "XL2018"),
    "branches differ": (lambda x: xlac.cond(x[0, 0] > 0, lambda: x, lambda: x[0]), r"f64\[2\] and f64\[2, 2\].*XL2035"),
    "nests differ": (lambda x: xlac.cond(x[0, 0] > 0, lambda: (x, x), lambda: x), "nests that differ.*XL2035"),
    "a row of bools": (lambda x: xlac.cond(x[0] > 0, lambda: x, lambda: x), "a bool scalar.*XL2035"),
    "a float index": (lambda x: xlac.switch(x[0, 0], [lambda: x]), "an integer scalar.*XL2035"),
    "no branch": (lambda x: xlac.switch(0, []), "no branch.*XL2035"),
    "one cotangent of two": (lambda x: xlac.custom_gradient(lambda a, b: a * b, lambda ct, y, a, b: (ct,))(x, x), "XL2043"),
    "another cotangent": (lambda x: xlac.custom_gradient(lambda a: a * 1.0, lambda ct, y, a: (ct[0],))(x), r"XL2043"),
}  # fmt: skip


@pytest.mark.sampled(3)
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
