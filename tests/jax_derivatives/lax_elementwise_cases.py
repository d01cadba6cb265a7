"""Cases of JAX's own checks: elementwise functions, jax.numpy and jax.nn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from lax_case import Case, Draw, case, drawn, normal, positive, uniform

UNARY: dict[str, Draw] = {
    **dict.fromkeys(
        "neg exp exp2 expm1 sinh cosh tanh sin cos erf erfc logistic square atan asinh bessel_i0e "
        "bessel_i1e".split(),
        normal,
    ),
    **dict.fromkeys("floor ceil round".split(), uniform(0.1, 0.4)),
    **dict.fromkeys(
        "log log1p sqrt rsqrt cbrt abs lgamma digamma reciprocal sign".split(), positive
    ),
    **dict.fromkeys("asin acos atanh erf_inv".split(), uniform(-0.9, 0.9)),
    "tan": uniform(-1.3, 1.3),
    "acosh": uniform(1.2, 3.0),
}
BINARY: dict[str, Draw] = {
    **dict.fromkeys("add sub mul max min atan2".split(), normal),
    **dict.fromkeys("div pow rem".split(), positive),
}
NUMPY = (
    "sinc logaddexp logaddexp2 hypot arctan2 cumsum cumprod cumlogsumexp sort median var std prod "
    "max min mean logsumexp cross outer kron trace diff fmod"
).split()
NN = (
    "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu "
    "hard_tanh elu celu selu gelu glu squareplus mish softmax log_softmax logsumexp standardize"
).split()
POINTS: dict[str, list[float]] = {
    "sinh": [0.0], "cosh": [0.0], "tanh": [0.0, 1000.0], "sin": [0.0, np.pi, np.pi / 2],
    "cos": [0.0, np.pi], "tan": [0.0], "asin": [0.0], "acos": [0.0], "atan": [0.0, 1000.0],
    "erf": [0.0, 10.0], "erfc": [0.0, 10.0],
}  # fmt: skip


def elementwise() -> Iterator[tuple[str, Case]]:
    for name, draw in UNARY.items():
        yield name, case(getattr(lax, name), name, [(2, 3)], draw)
    for name, draw in BINARY.items():
        for shapes in (((3,), (3,)), ((2, 3, 4), (2, 1, 4))):
            yield f"{name} {len(shapes[0])}", case(getattr(lax, name), name, shapes, draw)
    for name, values in POINTS.items():
        yield f"{name} at points", Case(getattr(lax, name), (np.array(values),))
    x = drawn("clamp", [(2, 3)])[0]
    for n, given in enumerate(((x, x - 10, x + 10), (x - 10, x, x + 10), (x - 10, x + 10, x))):
        yield f"clamp {n}", Case(lax.clamp, given)
    for n in (-3, -1, 0, 1, 2, 5):
        yield f"integer_pow {n}", case(partial(lax.integer_pow, y=n), "p", [(3,)], positive)
    yield "pow at 0", Case(lambda x: x**2, (np.zeros(2),))
    yield "fourth of 1 / x", Case(_fourth, (np.array(4.0),))
    for name in NN:
        yield f"nn {name}", case(getattr(jax.nn, name), name, [(4, 6)])


def _fourth(x: Any) -> Any:
    return jax.grad(jax.grad(jax.grad(jax.grad(lambda x: 1 / x))))(x)


def numpy_functions() -> Iterator[tuple[str, Case]]:
    two = {"logaddexp", "logaddexp2", "hypot", "arctan2", "cross", "outer", "kron", "fmod"}
    for name in NUMPY:
        home = jax.nn if name == "logsumexp" else lax if name == "cumlogsumexp" else jnp
        shapes = [(4, 3), (4, 3)] if name in two else [(4, 3)]
        yield f"numpy {name}", case(getattr(home, name), name, shapes, positive)
    y = np.array([[0, 2], [1, 1]])
    diagonal = lambda x: x.at[np.diag_indices(5)].set(np.arange(5.0))
    stopped = lambda x: lax.sin(x) * lax.cos(lax.stop_gradient(x))
    yield "at set", case(lambda x, v: x.at[y].set(v), "at", [(5, 3), (3,)])
    yield "at add", case(lambda x, v: x.at[:, 1].add(v), "at", [(5, 3), (5,)])
    yield "at mul", case(lambda x, v: x.at[2].multiply(v), "at", [(5, 3), (3,)])
    yield "diagonal set", case(diagonal, "d", [(5, 5)])
    yield "take", case(lambda x: jnp.take(x, y, axis=0), "take", [(5, 3)])
    yield "einsum", case(partial(jnp.einsum, "bij,bkj->ik"), "e", [(2, 3, 4), (2, 5, 4)])
    yield "where", case(lambda a, b: jnp.where(a > b, a * b, b), "w", [(3, 4), (4,)])
    yield "tile", case(lambda x: jnp.tile(x, (1, 3, 1)), "tile", [(1, 2, 4)])
    yield "stop_gradient", case(stopped, "stop", [(3,)])
