"""Functions of `jax.shard_map` on four devices of the host, compiled by `xlac.from_jax` and
compared with JAX: a program of its own, as JAX counts its devices once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

import xlac
from xlac.frontends.jax.exported import load
from xlac.ir.interpret import interpret
from xlac.ops.tensor.leaf import param

P = PartitionSpec
MESH = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 8)).astype(np.float32)
W = RNG.standard_normal((8, 4)).astype(np.float32)
ROWS, BLOCKS = P("data"), P("data", "model")


def mapped(body: Callable[..., Any], takes: Any, gives: Any, **more: Any) -> Callable[..., Any]:
    """A function on the mesh."""
    return jax.shard_map(body, mesh=MESH, in_specs=takes, out_specs=gives, **more)


layer = mapped(lambda x, w: lax.psum(jnp.tanh(x @ w), "model"), (BLOCKS, P("model")), ROWS)
total = jax.jit(lambda x: lax.psum(x, "data"))


def ring(x: Any) -> Any:
    """A loop in which parts go round."""

    def step(_: Any, carry: Any) -> Any:
        sums, moving = carry
        moving = lax.ppermute(moving, "data", [(0, 1), (1, 0)])
        return sums * 2 + moving, moving

    return lax.fori_loop(0, 3, step, (x, x))[0]


def collectives(x: Any, w: Any) -> Any:
    """Every collective of JAX."""
    y = lax.psum(x @ w, "model")
    place = lax.axis_index("data").astype(y.dtype)
    return (
        lax.all_gather(y, "data", tiled=True) + place,
        lax.ppermute(y, ("data", "model"), [(n, (n + 1) % 4) for n in range(3)]),
        lax.psum_scatter(y, "model", scatter_dimension=1, tiled=True),
        lax.all_to_all(y, "data", 1, 0, tiled=True),
        lax.pmax(y, ("data", "model")),
        lax.all_gather(y, ("model", "data"), axis=1),
        lax.pmin(y > 0, "data"),
    )


def nested(x: Any) -> Any:
    """A computation over one axis in one over the other."""
    inner = jax.shard_map(
        lambda z: lax.psum(z * lax.axis_index("model"), "model"),
        in_specs=P("model"),
        out_specs=P(),
        axis_names={"model"},
    )
    return inner(x) * jnp.sum(lax.psum(x, "data")) + lax.axis_index("data")


def scanned(x: Any) -> Any:
    """A sum of all ranks in a scan."""
    start = jnp.zeros(x.shape[1])
    return lax.scan(lambda c, row: (lax.psum(c, "data") * 0.1 + row, c), start, x)[1]


CASES: dict[str, tuple[Any, ...]] = {
    "layer": (layer, X, W),
    "its gradients": (jax.grad(lambda x, w: jnp.sum(layer(x, w) ** 2), argnums=(0, 1)), X, W),
    "vmap": (jax.vmap(layer, in_axes=(0, None)), np.stack([X, 2 * X]), W),
    "ring": (mapped(ring, ROWS, ROWS), X),
    "collectives": (
        mapped(
            collectives,
            (BLOCKS, P("model", None)),
            (P(("data", "model")), ROWS, BLOCKS, ROWS, P(), ROWS, P()),
            check_vma=False,
        ),
        X,
        W,
    ),
    "no operand": (lambda: mapped(lambda: lax.axis_index("data")[None], (), ROWS)(),),
    "captured": (lambda x, y: mapped(lambda x: x + jnp.sin(y), ROWS, ROWS)(x), X, np.float32(2)),
    "a function called twice": (mapped(lambda x: total(x) + total(2 * x), ROWS, P()), X),
    "some axes": (
        mapped(
            lambda x: lax.psum(x, "data") * lax.axis_index("data"), ROWS, ROWS, axis_names={"data"}
        ),
        X,
    ),
    "nested": (mapped(nested, ROWS, ROWS, axis_names={"data"}), X),
    "complex": (mapped(lambda x: lax.psum(x, "data"), ROWS, P()), X.astype(np.complex64)),
    "bf16": (mapped(lambda x: lax.psum(x, "data"), ROWS, P()), X.astype(jnp.bfloat16)),
    "scan": (mapped(scanned, ROWS, ROWS, check_vma=False), X),
    "branch": (
        mapped(
            lambda x: lax.cond(lax.axis_index("data") == 0, lambda a: a * 2, lambda a: a - 1, x),
            ROWS,
            ROWS,
        ),
        X,
    ),
    "order of axes": (mapped(lambda x: x * 1, P(("model", "data")), P(None, ("data", "model"))), X),
}


def numbers(array: Any) -> Any:
    """Any array as complex numbers."""
    return np.asarray(array).astype(np.complex128)


def main() -> None:
    """Prints the names of the cases that agree."""
    for name, (function, *args) in CASES.items():
        wanted = jax.tree.leaves(jax.jit(function)(*args))
        found = jax.tree.leaves(xlac.from_jax(function, *args, target="cpu")(*args))
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            np.testing.assert_allclose(numbers(a), numbers(b), 2e-5, 1e-5, err_msg=name)
        graph = load(jax.export.export(jax.jit(function))(*args)).graph
        given = [a.view(np.float32).reshape(8, 8, 2) if name == "complex" else a for a in args]
        meant = interpret(
            graph, {param(n).name: a for n, a in zip(graph.inputs, given, strict=True)}
        )
        for a, b in zip(meant.values(), wanted, strict=True):
            b = np.asarray(b).view(np.float32).reshape(a.shape) if name == "complex" else b
            np.testing.assert_allclose(numbers(a), numbers(b), 2e-5, 1e-5, err_msg=name)
        print(name, flush=True)


def open_size() -> None:
    """A function with a size that no axis divides, kept open."""

    def body(x: Any, w: Any) -> Any:
        y = lax.psum(jnp.tanh(x @ w), "model")
        return lax.all_gather(y, "model", tiled=True) * lax.axis_index("data")

    takes, gives = (P(None, "model"), P("model")), P(("model", "data"))
    function = mapped(body, takes, gives, check_vma=False)
    (rows,) = jax.export.symbolic_shape("rows")
    types = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((rows, 8), (8, 4))]
    compiled = xlac.from_jax(function, *types, target="reference")
    for count in (3, 6):
        found, wanted = compiled(X[:count], W), jax.jit(function)(X[:count], W)
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
    print("an open size", flush=True)


if __name__ == "__main__":
    main()
    open_size()
