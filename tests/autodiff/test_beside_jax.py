"""Derivatives and batching beside JAX's: values, gradients, changes, Hessians and gradients of each
example of the same functions, in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import xlac
from xlac.ir.interpret import interpret

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    """A function, as xlac and as JAX have it, from arrays of `shapes` to one array; `draw` says of
    what range they are.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((4, 3),)
    draw: tuple[float, float] = (-1.5, 1.5)


def same(
    make: Callable[..., Any], *shapes: tuple[int, ...], draw: tuple[float, float] = (-1.5, 1.5)
) -> Case:
    """A function that both write alike, given their module."""
    return Case(lambda *x: make(xlac, *x), lambda *x: make(jnp, *x), shapes or ((4, 3),), draw)


def nn(name: str, ours: str = "") -> Case:
    return Case(getattr(xlac, ours or name), getattr(jax.nn, name))


def layer_norm(m: Any, x: Any) -> Any:
    centred = x - m.mean(x, axis=-1, keepdims=True)
    return centred / m.sqrt(m.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    scores = m.exp(q @ k.T / 2)
    return scores / m.sum(scores, axis=-1, keepdims=True) @ v


def lstm(m: Any, x: Any, w: Any) -> Any:
    """Three steps of a cell, unrolled."""
    h = c = x[0] * 0.0
    for step in range(3):
        gates = m.tanh(x[step] + h) @ w
        c = c * 0.5 + gates
        h = m.tanh(c) * x[step]
    return h


POSITIVE, OPEN = (0.2, 2.0), (-0.9, 0.9)
PAIR = ((4, 3), (4, 3))
ANYWHERE = (
    "sin cos tan exp expm1 sinh cosh tanh abs square floor sign exp2 sum mean prod var std".split()
)
LAYERS = "relu sigmoid softplus silu elu celu relu6 softmax log_softmax logsumexp".split()


def named(names: Iterable[str], **options: Any) -> dict[str, Case]:
    """Functions that xlac and jax.numpy call alike."""
    own = lambda m, x, name: getattr(m, name)(x)
    return {name: same(partial(own, name=name), **options) for name in names}


CASES: dict[str, Case] = {
    **named(ANYWHERE),
    **named("log log1p log2 sqrt cbrt reciprocal".split(), draw=POSITIVE),
    **named((n for n in "arcsin arccos arctan arctanh".split() if hasattr(xlac, n)), draw=OPEN),
    **{name: nn(name) for name in LAYERS},
    "selu": Case(
        lambda x: xlac.selu(x, alpha=1.6732632423543772, scale=1.0507009873554805), jax.nn.selu
    ),
    "gelu": Case(lambda x: xlac.gelu(x, approximate="tanh"), jax.nn.gelu),
    "lgamma": Case(xlac.lgamma, jax.scipy.special.gammaln, draw=POSITIVE),
    "digamma": Case(xlac.digamma, jax.scipy.special.digamma, draw=POSITIVE),
    "erf": Case(xlac.erf, jax.scipy.special.erf),
    "erf_inv": Case(xlac.erf_inv, jax.scipy.special.erfinv, draw=OPEN),
    "acosh": Case(xlac.acosh, jnp.arccosh, draw=(1.2, 3.0)),
    "cumsum": same(lambda m, x: m.cumsum(x, axis=0)),
    "cumprod": same(lambda m, x: m.cumprod(x, axis=1)),
    "max": Case(lambda x: xlac.max(x, axis=1), lambda x: jnp.max(x, axis=1)),
    "min": Case(
        lambda x: xlac.reduce_min(x, axis=0, keepdims=True),
        lambda x: jnp.min(x, axis=0, keepdims=True),
    ),
    "norm": Case(xlac.norm, jnp.linalg.norm),
    "sort": Case(lambda x: xlac.sort(x, axis=1), lambda x: jnp.sort(x, axis=1)),
    "topk": Case(lambda x: xlac.topk(x, k=2)[0], lambda x: jax.lax.top_k(x, 2)[0]),
    "add": same(lambda m, x, y: x + y, (4, 3), (3,)),
    "mul": same(lambda m, x, y: x * y * x, (4, 1), (4, 3)),
    "div": same(lambda m, x, y: x / y, *PAIR, draw=POSITIVE),
    "power": same(lambda m, x, y: x**y, *PAIR, draw=POSITIVE),
    "arctan2": Case(xlac.atan2, jnp.arctan2, PAIR, POSITIVE),
    "remainder": Case(xlac.mod, jnp.mod, PAIR, POSITIVE),
    "maximum": Case(lambda x, y: xlac.max(x, y), jnp.maximum, PAIR),
    "where": same(lambda m, x, y: m.where(x > y, x * y, y), *PAIR),
    "clip": Case(lambda x: xlac.clip(x, min=-0.5, max=0.7), lambda x: jnp.clip(x, -0.5, 0.7)),
    "matmul": same(lambda m, x, y: x @ y, (4, 3), (3, 2)),
    "batched matmul": same(lambda m, x, y: x @ y, (2, 4, 3), (2, 3, 2)),
    "einsum": Case(
        lambda x, y: xlac.einsum(x, y, equation="bij,bkj->bik"),
        lambda x, y: jnp.einsum("bij,bkj->bik", x, y),
        ((2, 4, 3), (2, 2, 3)),
    ),
    "indexing": same(lambda m, x: x[1:, ::-1] * x[0, 1]),
    "transpose": same(lambda m, x: x.T @ x),
    "reshape": same(lambda m, x: x.reshape(2, 6) * 3.0),
    "concatenate": Case(
        lambda x, y: xlac.concat(x, y, axis=1), lambda x, y: jnp.concatenate([x, y], axis=1), PAIR
    ),
    "pad": Case(
        lambda x: xlac.pad(x, np.float64(0.5), low=(1, 0), high=(0, 2), interior=(0, 0)),
        lambda x: jnp.pad(x, ((1, 0), (0, 2)), constant_values=0.5),
    ),
    "take": Case(
        lambda x: xlac.take(x, np.int32([2, 0, 2]), axis=0),
        lambda x: jnp.take(x, np.int32([2, 0, 2]), axis=0),
    ),
    "roll": Case(lambda x: xlac.roll(x, shift=1, axis=0), lambda x: jnp.roll(x, 1, axis=0)),
    "triu": same(lambda m, x: m.triu(x)),
    "layer_norm": same(layer_norm),
    "attention": same(attention, (4, 3), (5, 3), (5, 2)),
    "lstm": same(lstm, (3, 2, 4), (4, 4)),
    "conv": Case(
        lambda x, k: xlac.conv(
            x, k, strides=(2, 1), low=(1, 1), high=(1, 1), lhs_dilation=(1, 1), rhs_dilation=(1, 1)
        ),
        lambda x, k: jax.lax.conv_general_dilated(x, k, (2, 1), ((1, 1), (1, 1))),
        ((2, 2, 5, 4), (3, 2, 3, 3)),
    ),
    "max_pool": Case(
        lambda x: xlac.max_pool2d(x, kernel=2, stride=1, pad="valid"),
        lambda x: jax.lax.reduce_window(
            x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID"
        ),
        ((1, 2, 4, 4),),
    ),
    "stop_gradient": Case(
        lambda x: xlac.stop_gradient(x * x) * x, lambda x: jax.lax.stop_gradient(x * x) * x
    ),
}


def drawn(case: Case, *seeds: int) -> list[tuple[Any, ...]]:
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        found.append(tuple(rng.uniform(*case.draw, shape) for shape in case.shapes))
    return found


def close(found: Any, wanted: Any) -> None:
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    """One program of ours for all: the value, its change, gradients, a product with the Hessian,
    and the gradient of each of three examples.
    """
    case = CASES[name]
    first, moves, *examples = drawn(case, 0, 1, 2, 3, 4)
    stacked = tuple(np.stack(each) for each in zip(*examples, strict=True))
    places = tuple(range(len(case.shapes)))

    def ours(x: Any, t: Any, many: Any) -> Any:
        def weighted(*x: Any) -> Any:
            y = case.ours(*x)
            return xlac.sum(xlac.sin(y) * y)

        gradient = xlac.grad(weighted, wrt=places)
        return (
            xlac.jvp(case.ours, x, t),
            xlac.value_and_grad(weighted, wrt=places)(*x),
            xlac.jvp(gradient, x, t)[1],
            xlac.vmap(gradient)(*many),
            xlac.vmap(case.ours, in_axes=(0, *[None] * (len(x) - 1)))(many[0], *x[1:]),
        )

    def theirs(x: Any, t: Any, many: Any) -> Any:
        def weighted(*x: Any) -> Any:
            y = case.theirs(*x)
            return jnp.sum(jnp.sin(y) * y)

        gradient = jax.grad(weighted, argnums=places)
        return (
            jax.jvp(case.theirs, x, t),
            jax.value_and_grad(weighted, argnums=places)(*x),
            jax.jvp(gradient, x, t)[1],
            jax.vmap(gradient)(*many),
            jax.vmap(case.theirs, in_axes=(0, *[None] * (len(x) - 1)))(many[0], *x[1:]),
        )

    graph = xlac.jit(ours).trace(first, moves, stacked).graph
    values = dict(zip((n.op.name for n in graph.inputs), [*first, *moves, *stacked], strict=True))
    with np.errstate(all="ignore"):
        found = list(interpret(graph, values).values())
    close(found, jax.jit(theirs)(first, moves, stacked))
