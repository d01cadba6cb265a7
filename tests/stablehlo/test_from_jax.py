"""`xlac.from_jax`: functions of JAX give what they give under jax.jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp = jax.numpy
X = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


def agree(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Compiles a function and compares nest, types and numbers with JAX's."""
    compiled = xlac.from_jax(function, *args, **options)
    found, wanted = compiled(*args), jax.jit(function, **options.get("jit", {}))(*args)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(
            np.asarray(a, np.complex128), np.asarray(b, np.complex128), 1e-5, 1e-5
        )
    return compiled


def test_nests_of_arrays_and_numbers() -> None:
    agree(
        lambda tree, n: {"sum": tree["a"] + tree["b"][0], "rest": (n * 2, [tree["b"][1]])},
        {"a": X, "b": (X, np.int32(3))},
        1.5,
    )


def test_arguments_that_are_not_used() -> None:
    agree(lambda a, b, c: (b, b + 1), X, X * 2, np.int32(1))


def test_complex_numbers_minifloats_and_narrow_integers() -> None:
    z = (X + 1j * X[::-1]).astype(np.complex64)
    agree(lambda z: (jnp.fft.fft(z), jnp.abs(z), z * 2), z)
    agree(lambda x: (x.astype(jnp.float8_e4m3fn), x.astype(jnp.bfloat16), x.astype(jnp.int4)), X)
    agree(lambda x: x.astype(jnp.float32) + 1, X.astype(jnp.float8_e5m2))
    agree(lambda x: x + x, (X * 2).astype(jnp.int4))


def test_keys_of_random_numbers() -> None:
    agree(lambda key: (jax.random.normal(key, (3,)), jax.random.split(key)), jax.random.key(7))
    agree(lambda key: jax.random.uniform(key, (5,)), jax.random.key(7, impl="rbg"))


KEYS = ("threefry2x32", "rbg", "unsafe_rbg")


@pytest.mark.parametrize("kind", KEYS)
def test_every_kind_of_key_has_the_bits_of_jax(kind: str) -> None:
    def drawn(key: Any) -> Any:
        one, two = jax.random.split(jax.random.fold_in(key, 3))
        many = jax.vmap(lambda k: jax.random.bits(k, (5,)))(jax.random.split(two, 3))
        small = jax.random.bits(one, (7, 3), jnp.uint8), jax.random.bits(one, (5,), jnp.uint16)
        return jax.random.bits(one, (33,)), jax.random.permutation(two, 17), many, small

    for seed in (0, 7, 2**32 - 1):
        agree(drawn, jax.random.key(seed, impl=kind))


def test_a_key_of_another_kind_compiles_anew() -> None:
    compiled = xlac.from_jax(jax.random.split, jax.random.key(7))
    for kind in KEYS:
        key = jax.random.key(7, impl=kind)
        found, wanted = compiled(key), jax.random.split(key)
        assert found.dtype == wanted.dtype
        assert (jax.random.key_data(found) == jax.random.key_data(wanted)).all()
    assert compiled.programs == len(KEYS)


def test_control_flow_gradients_and_vmap() -> None:
    def loss(w: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = jnp.tanh(h @ w + row)
            return h, jax.lax.cond(h.sum() > 0, lambda v: v * 2, jnp.sin, h)

        return jax.lax.scan(step, jnp.zeros(3), x)[1].sum()

    agree(jax.vmap(jax.value_and_grad(loss), (None, 0)), X[:3] * 0.3, np.stack([X, -X]))


def test_static_and_donated_arguments() -> None:
    compiled = xlac.from_jax(
        lambda x, n, *, flip: x[:n][::-1] if flip else x[:n],
        X,
        2,
        flip=True,
        jit={"static_argnums": 1, "static_argnames": "flip"},
    )
    np.testing.assert_array_equal(compiled(X, 2, flip=True), X[:2][::-1])
    donating = xlac.from_jax(jax.jit(lambda x, y: x + y, donate_argnums=0), X, X)
    first, second = jnp.asarray(X), jnp.asarray(X)
    np.testing.assert_array_equal(donating(first, second), X + X)
    assert first.is_deleted() and not second.is_deleted()


def test_symbolic_sizes_stay_open() -> None:
    b, c = jax.export.symbolic_shape("b, c")

    def function(x: Any, y: Any) -> Any:
        return jax.nn.softmax(x @ y.T) + x.shape[0], jnp.concatenate([x, y]).sum(1)

    compiled = xlac.from_jax(
        function, jax.ShapeDtypeStruct((b, 3), np.float32), jax.ShapeDtypeStruct((c, 3), np.float32)
    )
    assert set(compiled.model.dims) == {"b", "c"}
    for rows in (1, 3):
        for found, wanted in zip(
            compiled(X[:rows], X), function(jnp.asarray(X[:rows]), jnp.asarray(X)), strict=True
        ):
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_arguments_that_no_program_takes_are_errors() -> None:
    compiled = xlac.from_jax(lambda a, b: a + b, X, X)
    with pytest.raises(SourceError, match="XL6001"):
        compiled(X)
    with pytest.raises(SourceError, match="XL6002"):
        compiled(X, "text")
    rows = jax.export.symbolic_shape("rows")
    kept = xlac.from_jax(lambda a: a + 1, jax.ShapeDtypeStruct((*rows, 3), np.float32))
    with pytest.raises(SourceError, match="XL6002"):
        kept(X.astype(np.float64))
    with pytest.raises(SourceError, match="XL6003"):
        kept(X[:, :2])


@pytest.mark.parametrize("vector", [0, 1])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8])
@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_max"])
def test_windows_of_a_scatter_are_dropped_whole(name: str, dtype: Any, vector: int) -> None:
    """Where any of it is outside, also of what is differentiated."""
    numbers = jax.lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    at = np.array([[0, 0], [-1, 1], [3, 1], [4, 0], [1, 3], [2, 2], [100, 0]]).astype(dtype)
    x, updates = X[[0, 1, 2, 3, 0], :][:, [0, 1, 2, 0]], np.arange(1.0, 29.0, dtype=np.float32)
    given = (x, at if vector else at.T, updates.reshape(7, 2, 2))

    def put(x: Any, at: Any, updates: Any) -> Any:
        at = at if vector else at.T
        found = getattr(jax.lax, name)(x, at, updates, numbers, mode="fill")
        return found, found.sum() ** 2

    agree(put, *given)
    agree(lambda x, at, u: jax.grad(lambda x, u: put(x, at, u)[1], (0, 1))(x, u), *given)


def test_a_window_of_a_scatter_that_is_known_to_be_inside_costs_nothing() -> None:
    compiled = agree(lambda x: x.at[1:3, :2].set(x[:2, 1:]), X)
    steps = compiled.program.program.steps
    assert [type(step).__name__ for step in steps] == ["Copy", "Launch"]
