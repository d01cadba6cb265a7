"""Loops, branches and declared gradients in traced functions: their values, derivatives and batches
beside JAX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_traced_control import XS, H, W

import xlac

jax = pytest.importorskip("jax")


jnp, lax = jax.numpy, jax.lax


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


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", CASES)
def test_beside_jax(name: str) -> None:
    f, ours, theirs = CASES[name]
    all_of_it = everything(Ours(), xlac, lambda *a: f(xlac, ours, *a))
    found = xlac.jit(all_of_it, target="reference")(W, H, XS)
    with jax.enable_x64(True):
        wanted = everything(jnp, jax, lambda *a: f(jnp, theirs, *a))(W, H, XS)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-12)
