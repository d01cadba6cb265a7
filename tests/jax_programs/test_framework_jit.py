"""Functions that equinox and flax have jitted, with their static arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp = jax.numpy
X, Y = np.ones((4, 3), np.float32), np.full((4, 2), 0.5, np.float32)


def test_options_of_jit_are_given_by_name() -> None:
    f = xlac.from_jax(lambda x, n: jnp.tile(x, n), static_argnums=1)
    assert f(X[0], 2).shape == (6,) and f(X[0], 3).shape == (9,) and f.programs == 2
    f = xlac.from_jax(lambda s, x: s + x, X[0], X[0], donate_argnames="s", results="jax")
    state = jnp.ones(3)
    f(state, X[0])
    assert state.is_deleted()


class Foreign:
    """A callable of somebody else with a method of that name."""

    def __call__(self, x: Any) -> Any:
        return x * 2

    def lower(self) -> str:
        return "case"


def test_a_method_called_lower_makes_no_jitted_function() -> None:
    assert (xlac.from_jax(Foreign(), X)(X) == X * 2).all()


# ---- equinox -------------------------------------------------------------------------------------


def layers() -> Any:
    return pytest.importorskip("equinox").nn.MLP(3, 2, 8, 2, key=jax.random.key(0))


def test_filter_jit_with_static_leaves_and_numbers() -> None:
    eqx = pytest.importorskip("equinox")
    jitted = eqx.filter_jit(lambda m, x, n=1, mode="plain": m(x) * n + (mode == "more"))
    f, module = xlac.from_jax(jitted), layers()
    x = jnp.ones(3)
    for more in ({}, {"n": 3}, {"n": 3, "mode": "more"}, {"n": jnp.float32(3)}, {"n": 3}):
        np.testing.assert_allclose(f(module, x, **more), jitted(module, x, **more), 1e-5)
    assert f.programs == 4 and "4 programs" in repr(f)


def test_a_training_step_of_equinox() -> None:
    eqx = pytest.importorskip("equinox")

    @eqx.filter_jit
    def step(module: Any, x: Any, y: Any) -> Any:
        def loss(m: Any) -> Any:
            return jnp.mean((jax.vmap(m)(x) - y) ** 2)

        value, gradient = eqx.filter_value_and_grad(loss)(module)
        return value, eqx.apply_updates(module, jax.tree.map(lambda g: -0.1 * g, gradient))

    compiled = xlac.from_jax(step)
    ours = theirs = layers()
    for _ in range(3):
        value, ours = compiled(ours, jnp.asarray(X), jnp.asarray(Y))
        wanted, theirs = step(theirs, jnp.asarray(X), jnp.asarray(Y))
        np.testing.assert_allclose(value, wanted, 1e-5)
    assert type(ours) is type(theirs) and compiled.programs == 1


def test_examples_are_refused() -> None:
    eqx = pytest.importorskip("equinox")
    with pytest.raises(SourceError, match="jitted by equinox or flax"):
        xlac.from_jax(eqx.filter_jit(lambda x: x), X)


# ---- flax ----------------------------------------------------------------------------------------


def runs(step: Callable[[Any], Any], wrap: Callable[[Any], Any]) -> tuple[list[float], Any]:
    """The losses of four steps, and the module after them."""
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.line, self.norm = nnx.Linear(3, 2, rngs=rngs), nnx.BatchNorm(2, rngs=rngs)
            self.calls, self.act = nnx.Variable(jnp.zeros(())), jax.nn.relu

        def __call__(self, x: Any) -> Any:
            self.calls[...] += 1
            return self.act(self.norm(self.line(x)))

    net = Net(nnx.Rngs(0))
    jitted = wrap(step(nnx))
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    return [float(jitted(net, jnp.asarray(x * n), 2)) for n in range(1, 5)], net


def test_nnx_jit_updates_modules_in_place() -> None:
    def step(nnx: Any) -> Any:
        def one(net: Any, x: Any, power: int) -> Any:
            def loss(n: Any) -> Any:
                return (n(x) ** power).mean()

            value, gradient = nnx.value_and_grad(loss)(net)
            params = nnx.state(net, nnx.Param)
            nnx.update(net, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient))
            return value

        return nnx.jit(one, static_argnums=2)

    ours, theirs = runs(step, xlac.from_jax), runs(step, lambda f: f)
    np.testing.assert_allclose(ours[0], theirs[0], 1e-4)
    assert float(ours[1].calls[...]) == 4
    np.testing.assert_allclose(ours[1].norm.mean[...], theirs[1].norm.mean[...], 1e-4, 1e-6)
    np.testing.assert_allclose(ours[1].line.kernel[...], theirs[1].line.kernel[...], 1e-4, 1e-6)
