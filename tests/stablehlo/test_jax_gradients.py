"""Gradients that JAX makes: its values, with the kernels of our own derivatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.autodiff.gradient import linearize
from xlac.debug.decisions import groups
from xlac.driver import Lowered, lower
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

jax = pytest.importorskip("jax")

from jax import lax
from jax import numpy as jnp

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def max_pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def mean_pool(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


def normal(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


def heads(x: Any, w: Any) -> Any:
    q, k, v = (part.reshape(2, 12, 2, 8) for part in jnp.split(x @ w, 3, -1))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


LABELS = np.array([3, 0, 9, 1, 1, 7])


def classes(scores: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), LABELS[:, None], 1)


def one_hot(scores: Any) -> Any:
    return -jnp.sum(jax.nn.log_softmax(scores) * jax.nn.one_hot(LABELS, 10), -1)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "max pool": (lambda x, w: max_pool(conv(x, w)), (drawn(2, 9, 8, 3), drawn(3, 3, 3, 4))),
    "mean pool": (lambda x, w: mean_pool(conv(x, w)), (drawn(2, 8, 8, 3), drawn(3, 3, 3, 4))),
    "convolutions": (
        lambda x, w, u, d: conv(jax.nn.relu(conv(jax.nn.relu(conv(x, w)), u, 2)), d, 1, 8),
        (drawn(2, 8, 8, 3), drawn(3, 3, 3, 8), drawn(3, 3, 8, 8), drawn(3, 3, 1, 8)),
    ),
    "batch norm": (
        lambda x, w: jax.nn.relu(normal(conv(x, w), (0, 1, 2))),
        (drawn(2, 8, 8, 3), drawn(3, 3, 3, 4)),
    ),
    "layer norm": (lambda x, w: normal(x @ w, -1), (drawn(6, 8), drawn(8, 12))),
    "classes": (lambda x, w: classes(x @ w), (drawn(6, 8), drawn(8, 10))),
    "one hot": (lambda x, w: one_hot(x @ w), (drawn(6, 8), drawn(8, 10))),
    "gelu": (
        lambda x, w, u: jax.nn.gelu(x @ w, approximate=False) @ u,
        (drawn(6, 8), drawn(8, 32), drawn(32, 8)),
    ),
    "embedding": (lambda e, w: e[LABELS] @ w, (drawn(50, 8), drawn(8, 4))),
    "attention": (heads, (drawn(2, 12, 16), drawn(16, 48))),
}


def lowered(model: Model) -> Lowered:
    return lower(model, find("cpu").target(Request(threads=1)))


def own(model: Model) -> Lowered:
    """A loss and its gradients by our derivatives."""
    (loss,) = model.graph.outputs.values()
    found = linearize([loss], model.inputs)
    gradients = found.transposed([build.constant(1.0, loss.type.dtype)])
    outputs = {f"y{n}": node for n, node in enumerate([found.values[0], *gradients])}
    return lowered(Model(Graph("own", model.graph.inputs, outputs), model.weights))


def counted(found: Lowered) -> Counter[str]:
    return Counter(group.kind.name for _, group in groups(found.partition))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, args = CASES[name]
    loss = lambda *given: jnp.mean(function(*given) ** 2)
    both = jax.value_and_grad(loss, argnums=tuple(range(len(args))))
    compiled = xlac.from_jax(both, *args, target="reference")
    (value, gradients), (expected, wanted) = compiled(*args), both(*args)
    np.testing.assert_allclose(value, expected, 1e-5, 1e-6)
    for mine, theirs in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)
    ours = own(xlac.from_jax(loss, *args, target="reference").model)
    theirs = lowered(compiled.model)
    assert not counted(theirs) - counted(ours)
    assert theirs.program.work.flops <= 1.02 * ours.program.work.flops


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_ties_of_select_and_scatter(padding: str) -> None:
    """Of equals the first is chosen."""
    x = RNG.integers(0, 3, (2, 7, 8)).astype(np.float32)

    def pooled(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 2), padding)

    weights = RNG.normal(size=jax.eval_shape(pooled, x).shape).astype(np.float32)

    def back(x: Any, w: Any) -> Any:
        return jax.vjp(pooled, x)[1](w)[0]

    found = xlac.from_jax(back, x, weights, target="reference")(x, weights)
    np.testing.assert_allclose(found, back(x, weights), 1e-6)
