"""Programs of JAX with symbolic sizes, at several sizes, against `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
RNG = np.random.default_rng(6)


def compare(
    function: Callable[..., Any],
    shapes: Sequence[tuple[Any, ...]],
    sizes: Sequence[dict[str, int]],
    limits: Sequence[str] = (),
    tolerance: float = 2e-5,
) -> None:
    names = list(sizes[0])
    symbols = jax.export.symbolic_shape(", ".join(names), constraints=limits)
    known = dict(zip(names, symbols, strict=True))

    def shaped(values: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(values[n] if isinstance(n, str) else n for n in shape) for shape in shapes]

    examples = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shaped(known)]
    compiled = xlac.from_jax(function, *examples)
    for values in sizes:
        args = [RNG.normal(size=shape).astype(np.float32) for shape in shaped(values)]
        found, wanted = (jax.tree.leaves(f(*args)) for f in (compiled, jax.jit(function)))
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, tolerance, tolerance)


VECTORS: dict[str, Callable[[Any], Any]] = {
    "steps and halves": lambda x: (x[::2], x[: x.shape[0] // 2], x[-3:], x[1:-1], x[::-1]),
    "2*n + 1": lambda x: jnp.concatenate([x, x, x[:1]]).reshape(1, -1),
    "n*n": lambda x: jnp.outer(x, x).reshape(-1)[1:],
    "running": lambda x: (jnp.cumsum(x), lax.cummax(x, 0, True), lax.cumlogsumexp(x, 0)),
    "sorted": lambda x: (jnp.sort(x), lax.top_k(x, 2), lax.top_k(x, x.shape[0] - 1)[0]),
    "approx_max_k": lambda x: lax.approx_max_k(x, x.shape[0] // 2)[0],
    "roll, tile, pad": lambda x: (jnp.roll(x, 1), jnp.tile(x, 3), jnp.pad(x, (1, 2))),
    "random bits": lambda x: x + jax.random.uniform(jax.random.key(3, impl="rbg"), x.shape),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_of_open_size(name: str) -> None:
    compare(VECTORS[name], [("n",)], [{"n": 4}, {"n": 5}, {"n": 9}], ["n >= 4"])


def test_windows_over_open_axes() -> None:
    def function(x: Any) -> Any:
        largest = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
        return largest, lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")

    sizes = [{"b": 1, "h": 6}, {"b": 2, "h": 7}]
    compare(function, [("b", "h", "h", 2)], sizes, ["h >= 4"])


def test_linear_algebra_of_an_open_batch() -> None:
    def function(a: Any) -> Any:
        spd = a @ a.transpose(0, 2, 1) + 4 * jnp.eye(3)
        factors = jnp.linalg.cholesky(spd), jnp.abs(jnp.linalg.qr(spd)[1])
        values = jnp.linalg.eigvalsh(spd), jnp.linalg.svd(spd, compute_uv=False)
        return *factors, *values, jnp.linalg.det(spd), jnp.linalg.inv(spd), jnp.linalg.solve(spd, a)

    compare(function, [("b", 3, 3)], [{"b": 1}, {"b": 4}], tolerance=1e-3)


def test_multiples_and_bounds_are_those_of_the_constraints() -> None:
    compare(
        lambda x: x.reshape(x.shape[0] // 4, 4).sum(1),
        [("n",)],
        [{"n": 4}, {"n": 12}],
        ["mod(n, 4) == 0", "n <= 40"],
    )
    (n,) = jax.export.symbolic_shape("n", constraints=["n <= 8", "n >= 2"])
    jitted, kind = jax.jit(lambda x: x + 1), jax.ShapeDtypeStruct((n,), np.float32)
    for f in (xlac.from_jax(jitted, kind), xlac.compile(jax.export.export(jitted)(kind))):
        assert f(np.ones(8, np.float32)).shape == (8,)
        for size in (1, 9):
            with pytest.raises(SourceError, match=r"outside its bounds 2\.\.8"):
                f(np.ones(size, np.float32))
