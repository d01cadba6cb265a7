"""Functions that JAX's users write whose loops and reductions are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Function = Callable[..., Any]
Case = tuple[Function, tuple[Any, ...]]


def draw(*shape: int) -> Any:
    """Normal numbers, the same each time."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# ---- small loops -----------------------------------------------------------------------------


def two_scans(xs: Any, start: Any) -> Any:
    """A filter forwards, then one over its results."""
    first, ys = lax.scan(lambda c, x: (0.9 * c + x, jnp.tanh(c)), start, xs)
    last, zs = lax.scan(lambda c, y: (0.5 * c + y * c, c + y), first, ys)
    return last, zs


def oscillator(*state: Any) -> Any:
    """A while loop that integrates until it has gone round, or for a thousand steps."""

    def turn(now: Any) -> Any:
        x, v, t = now
        v = v - 0.01 * x
        return x + 0.01 * v, v, t + 1

    return lax.while_loop(lambda now: (now[2] < 1000) & (now[0] < 2.0), turn, state)


def newton(a: Any) -> Any:
    """Square roots of a few numbers, until all have converged."""

    def far(now: Any) -> Any:
        return jnp.max(jnp.abs(now * now - a)) > 1e-3

    return lax.while_loop(far, lambda x: 0.5 * (x + a / x), a)


def lorenz(p: Any) -> Any:
    """A thousand Runge-Kutta steps of three numbers."""

    def slope(s: Any) -> Any:
        return jnp.stack(
            [10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]]
        )

    def turn(s: Any, _: Any) -> Any:
        a = slope(s)
        b = slope(s + 0.005 * a)
        c = slope(s + 0.005 * b)
        d = slope(s + 0.01 * c)
        s = s + 0.01 / 6 * (a + 2 * b + 2 * c + d)
        return s, s

    return lax.scan(turn, p, None, length=1000)[1]


def forces(x: Any) -> Any:
    """The energy of a few particles, by pairs."""
    r = ((x[:, None] - x[None]) ** 2).sum(-1) + jnp.eye(x.shape[0])
    return (1 / r**6 - 1 / r**3).sum()


def molecules(x: Any, v: Any) -> Any:
    """Fifty steps of molecular dynamics; the force is the gradient of an energy."""

    def turn(now: Any, _: Any) -> Any:
        x, v = now
        v = v - 1e-4 * jax.grad(forces)(x)
        return (x + 1e-4 * v, v), forces(x)

    return lax.scan(turn, (x, v), None, length=50)


def springs(k: Any, x: Any, v: Any) -> Any:
    """The derivative, by the constants of springs, of where a chain of masses ends."""

    def end(k: Any) -> Any:
        def turn(now: Any, _: Any) -> Any:
            x, v = now
            stretch = jnp.diff(x) - 1
            pull = k * stretch
            force = jnp.zeros_like(x).at[1:].add(-pull).at[:-1].add(pull)
            v = v + 0.01 * force
            return (x + 0.01 * v, v), None

        return (lax.scan(turn, (x, v), None, length=100)[0][0] ** 2).sum()

    return jax.grad(end)(k)


def lbfgs(x: Any) -> Any:
    """Twenty steps of L-BFGS on Rosenbrock's function, with its two loops over history."""
    history, n = 5, x.shape[0]

    def f(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def direction(g: Any, s: Any, y: Any, rho: Any) -> Any:
        def back(q: Any, row: Any) -> Any:
            s, y, rho = row
            alpha = rho * (s @ q)
            return q - alpha * y, alpha

        q, alphas = lax.scan(back, g, (s, y, rho), reverse=True)
        gamma = (s[-1] @ y[-1]) / (y[-1] @ y[-1] + 1e-10)

        def forth(r: Any, row: Any) -> Any:
            s, y, rho, alpha = row
            return r + s * (alpha - rho * (y @ r)), None

        return -lax.scan(forth, gamma * q + 1e-3 * q, (s, y, rho, alphas))[0]

    def turn(now: Any, _: Any) -> Any:
        x, g, s, y, rho = now
        step = direction(g, s, y, rho)
        new = x + 1e-2 * step
        grown = jax.grad(f)(new)
        a, b = new - x, grown - g
        r = 1 / (a @ b + 1e-6)
        s, y = jnp.roll(s, -1, 0).at[-1].set(a), jnp.roll(y, -1, 0).at[-1].set(b)
        return (new, grown, s, y, jnp.roll(rho, -1).at[-1].set(r)), f(new)

    zeros = jnp.zeros((history, n))
    return lax.scan(turn, (x, jax.grad(f)(x), zeros, zeros, jnp.zeros(history)), None, length=20)


def language(tokens: Any, table: Any, w: Any, u: Any, b: Any) -> Any:
    """An LSTM over embedded tokens, and its scores of the next."""
    x = table[tokens]

    def turn(now: Any, x: Any) -> Any:
        h, c = now
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], u.shape[0]))
    return lax.scan(turn, (zero, zero), x)[1] @ table.T


# ---- short reductions ------------------------------------------------------------------------


def n_body(x: Any, m: Any) -> Any:
    """Accelerations of bodies by pairs."""
    d = x[None] - x[:, None]
    return (d * (m[None] / ((d**2).sum(-1) + 0.05) ** 1.5)[..., None]).sum(1)


SMALL = draw(13, 3) * 2
X512 = draw(512, 3)

CASES: dict[str, Case] = {
    "two scans of 256 scalars": (two_scans, (draw(256), np.float32(0.5))),
    "oscillator, while": (
        oscillator, (np.float32(1), np.float32(0), np.int32(0))
    ),
    "newton, while": (newton, (np.abs(draw(8)) + 1,)),
    "fori of 8 numbers": (
        lambda x: lax.fori_loop(0, 1000, lambda i, x: x * 0.999 + 0.001, x), (draw(8),)
    ),
    "lorenz, runge-kutta": (lorenz, (draw(3),)),
    "molecules, scan with gradient": (molecules, (SMALL, SMALL * 0.01)),
    "springs, gradient of scan": (
        springs, (draw(15) * 0 + 1, np.arange(16, dtype=np.float32), draw(16))
    ),
    "l-bfgs": (lbfgs, (draw(16),)),
    "lstm language model": (
        language,
        (np.arange(32 * 8, dtype=np.int32).reshape(32, 8) % 100, draw(100, 64), draw(64, 256) / 8,
         draw(64, 256) / 8, draw(256)),
    ),
    "pair distances": (lambda x: ((x[:, None] - x[None]) ** 2).sum(-1), (draw(1000, 3),)),
    "root of pair distances": (
        lambda x: jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1) + 0.1), (draw(1000, 3),)
    ),
    "n-body": (n_body, (X512, np.abs(draw(512)))),
    "lennard-jones, gradient": (jax.grad(forces), (X512,)),
    "radial basis of 3": (
        lambda x: jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)), (X512,)
    ),
    "radial basis of 10": (
        lambda x: jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)), (draw(512, 10),)
    ),
    "norm of 3": (
        lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), (draw(100000, 3),)
    ),
    "softmax of 5": (jax.nn.softmax, (draw(100000, 5),)),
    "matrix and vector of 3": (
        lambda r, x: jnp.einsum("nij,nj->ni", r, x), (draw(50000, 3, 3), draw(50000, 3))
    ),
    "grey of RGB": (lambda x: x @ jnp.array([0.3, 0.6, 0.1]), (draw(512, 512, 3),)),
    "x[:, i]": (
        lambda t, i: t[:, i],
        (draw(1000, 512), np.random.default_rng(0).integers(0, 512, 300).astype(np.int32)),
    ),
    "masked softmax": (
        lambda x: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((256, 256), bool)), x, -1e9)),
        (draw(16, 256, 256),),
    ),
    "masked softmax, given mask": (
        lambda x, m: jax.nn.softmax(jnp.where(m, x, -1e9)),
        (draw(16, 256, 256), draw(256, 256) > 0),
    ),
}  # fmt: skip
