"""The cases by which JAX checks the derivatives of its primitives (`check_grads` in its tests), in f64: functions of
jax.lax, jax.numpy and jax.nn with arguments away from kinks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


class Case(NamedTuple):
    """A function and its arguments; `second` says whether it has a second derivative worth comparing."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    second: bool = True


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.normal(size=shape)


def uniform(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.3, 3.0, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """No two alike."""
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)


def drawn(name: str, shapes: Any, draw: Draw = normal) -> tuple[Any, ...]:
    rng = np.random.default_rng(sum(name.encode()))
    return tuple(draw(rng, tuple(shape)) for shape in shapes)


UNARY: dict[str, Draw] = {
    **dict.fromkeys("neg exp exp2 expm1 sinh cosh tanh sin cos erf erfc logistic square atan asinh bessel_i0e bessel_i1e".split(), normal),
    **dict.fromkeys("floor ceil round".split(), uniform(0.1, 0.4)),
    **dict.fromkeys("log log1p sqrt rsqrt cbrt abs lgamma digamma".split(), positive),
    **dict.fromkeys("asin acos atanh erf_inv".split(), uniform(-0.9, 0.9)),
    "tan": uniform(-1.3, 1.3), "acosh": uniform(1.2, 3.0), "reciprocal": positive, "sign": positive,
}  # fmt: skip
BINARY: dict[str, Draw] = dict.fromkeys("add sub mul max min atan2".split(), normal) | {"div": positive, "pow": positive, "rem": positive}  # fmt: skip
NUMPY = "sinc logaddexp logaddexp2 hypot arctan2 cumsum cumprod cumlogsumexp sort median var std prod max min mean logsumexp cross outer kron trace diff fmod".split()  # fmt: skip
NN = "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu hard_tanh elu celu selu gelu glu squareplus mish softmax log_softmax logsumexp standardize".split()  # fmt: skip


def elementwise() -> Iterator[tuple[str, Case]]:
    for name, draw in UNARY.items():
        yield name, Case(getattr(lax, name), drawn(name, [(2, 3)], draw))
    for name, draw in BINARY.items():
        for shapes in (((3,), (3,)), ((2, 3, 4), (2, 1, 4))):
            yield f"{name} {len(shapes[0])}", Case(getattr(lax, name), drawn(name, shapes, draw))
    points = {"sinh": [0.0], "cosh": [0.0], "tanh": [0.0, 1000.0], "sin": [0.0, np.pi, np.pi / 2], "cos": [0.0, np.pi], "tan": [0.0], "asin": [0.0], "acos": [0.0], "atan": [0.0, 1000.0], "erf": [0.0, 10.0], "erfc": [0.0, 10.0]}  # fmt: skip
    for name, values in points.items():
        yield f"{name} at points", Case(getattr(lax, name), (np.array(values),))
    x = drawn("clamp", [(2, 3)])[0]
    for n, given in enumerate(((x, x - 10, x + 10), (x - 10, x, x + 10), (x - 10, x + 10, x))):
        yield f"clamp {n}", Case(lax.clamp, given)
    for n in (-3, -1, 0, 1, 2, 5):
        yield f"integer_pow {n}", Case(partial(lax.integer_pow, y=n), drawn("p", [(3,)], positive))
    yield "pow at 0", Case(lambda x: x**2, (np.zeros(2),))
    yield "fourth of 1 / x", Case(_fourth, (np.array(4.0),))
    for name in NN:
        yield f"nn {name}", Case(getattr(jax.nn, name), drawn(name, [(4, 6)]))


def _fourth(x: Any) -> Any:
    return jax.grad(jax.grad(jax.grad(jax.grad(lambda x: 1 / x))))(x)


def numpy_functions() -> Iterator[tuple[str, Case]]:
    two = {"logaddexp", "logaddexp2", "hypot", "arctan2", "cross", "outer", "kron", "fmod"}
    for name in NUMPY:
        home = jax.nn if name == "logsumexp" else lax if name == "cumlogsumexp" else jnp
        shapes = [(4, 3), (4, 3)] if name in two else [(4, 3)]
        yield f"numpy {name}", Case(getattr(home, name), drawn(name, shapes, positive))
    y = np.array([[0, 2], [1, 1]])
    yield "at set", Case(lambda x, v: x.at[y].set(v), drawn("at", [(5, 3), (3,)]))
    yield "at add", Case(lambda x, v: x.at[:, 1].add(v), drawn("at", [(5, 3), (5,)]))
    yield "at mul", Case(lambda x, v: x.at[2].multiply(v), drawn("at", [(5, 3), (3,)]))
    yield "diagonal set", Case(lambda x: x.at[np.diag_indices(5)].set(np.arange(5.0)), drawn("d", [(5, 5)]))  # fmt: skip
    yield "take", Case(lambda x: jnp.take(x, y, axis=0), drawn("take", [(5, 3)]))
    yield "einsum", Case(lambda a, b: jnp.einsum("bij,bkj->ik", a, b), drawn("e", [(2, 3, 4), (2, 5, 4)]))  # fmt: skip
    yield "where", Case(lambda a, b: jnp.where(a > b, a * b, b), drawn("w", [(3, 4), (4,)]))
    yield "tile", Case(lambda x: jnp.tile(x, (1, 3, 1)), drawn("tile", [(1, 2, 4)]))
    yield "stop_gradient", Case(lambda x: lax.sin(x) * lax.cos(lax.stop_gradient(x)), drawn("stop", [(3,)]))  # fmt: skip


def structure() -> Iterator[tuple[str, Case]]:
    for dim, shape in itertools.chain(*(((d, s) for d in range(len(s))) for s in ((4,), (3, 4), (2, 3, 4)))):  # fmt: skip
        shapes = [(*shape[:dim], size, *shape[dim + 1 :]) for size in (3, 1, 4)]
        yield f"concatenate {shape} {dim}", Case(partial(lambda dim, *xs: lax.concatenate(xs, dim), dim), drawn("c", shapes))  # fmt: skip
        whole = (*shape[:dim], 8, *shape[dim + 1 :])
        yield f"split {shape} {dim}", Case(partial(lax.split, sizes=(3, 1, 4), axis=dim), drawn("s", [whole]))  # fmt: skip
    for shape, sizes in itertools.product([(), (2, 3)], [(), (2,), (1, 2)]):
        yield f"broadcast {shape} {sizes}", Case(partial(lax.broadcast, sizes=sizes), drawn("b", [shape]))  # fmt: skip
    for n, (into, dims, shape) in enumerate([((2, 2), (0,), (2,)), ((2, 2), (1,), (2,)), ((2, 3), (), ())]):  # fmt: skip
        yield f"broadcast_in_dim {n}", Case(partial(lax.broadcast_in_dim, shape=into, broadcast_dimensions=dims), drawn("b", [shape]))  # fmt: skip
    for n, (shape, into, perm) in enumerate([((3, 4), (12,), None), ((2, 2, 4), (2, 8), None), ((3, 4), (12,), (1, 0)), ((2, 2, 4), (2, 8), (2, 0, 1))]):  # fmt: skip
        yield f"reshape {n}", Case(partial(lambda into, perm, x: lax.reshape(x, into, perm), into, perm), drawn("r", [shape]))  # fmt: skip
    for n, pads in enumerate([((1, 2, 1), (0, 1, 0)), ((-1, 0, 0), (-1, 0, 2))]):
        yield f"pad {n}", Case(partial(lax.pad, padding_config=pads), drawn("p", [(2, 3), ()]))
    yield "rev", Case(lambda x: lax.rev(x, (0, 1)), drawn("rev", [(2, 3)]))
    for n, which in enumerate([True, np.array([[True, False, True], [False, True, True]])]):
        yield f"select {n}", Case(partial(lax.select, which), drawn("s", [(2, 3), (2, 3)]))
    slices = [((7,), (4,), (7,), None), ((8,), (1,), (6,), (2,)), ((5, 3), (1, 1), (3, 1), None), ((7, 5, 3), (4, 0, 1), (7, 1, 3), None), ((3, 3, 5), (0, 2, 0), (3, 2, 5), (1, 2, 1))]  # fmt: skip
    for n, (shape, start, limit, strides) in enumerate(slices):
        yield f"slice {n}", Case(partial(lax.slice, start_indices=start, limit_indices=limit, strides=strides), drawn("s", [shape]))  # fmt: skip
    for n, (shape, start, sizes) in enumerate([((3,), (1,), (1,)), ((5, 3), (1, 1), (3, 1)), ((7, 5, 3), (4, 1, 0), (2, 0, 1)), ((5, 3), (-9, 9), (2, 2))]):  # fmt: skip
        yield f"dynamic_slice {n}", Case(partial(lambda start, sizes, x: lax.dynamic_slice(x, start, sizes), start, sizes), drawn("d", [shape]))  # fmt: skip
        yield f"dynamic_update_slice {n}", Case(partial(lambda start, x, u: lax.dynamic_update_slice(x, u, np.array(start)), start), drawn("d", [shape, sizes]))  # fmt: skip
    for perm in itertools.permutations(range(3)):
        yield f"transpose {perm}", Case(partial(lax.transpose, permutation=perm), drawn("t", [(3, 4, 5)]))  # fmt: skip


def reductions() -> Iterator[tuple[str, Case]]:
    monoids: dict[str, tuple[Any, float, Draw]] = {"add": (lax.add, 0.0, normal), "max": (lax.max, -np.inf, distinct), "min": (lax.min, np.inf, distinct), "mul": (lax.mul, 1.0, normal)}  # fmt: skip
    for (name, (op, init, draw)), (shape, dims) in itertools.product(monoids.items(), [((), ()), ((3, 4, 5), ()), ((3, 4, 5), (0,)), ((3, 4, 5), (0, 2)), ((3, 4, 5), (0, 1, 2)), ((3, 0, 5), (1,))]):  # fmt: skip
        yield f"reduce {name} {shape} {dims}", Case(partial(lambda op, init, dims, x: lax.reduce(x, init, op, dims), op, init, dims), drawn("r", [shape], draw))  # fmt: skip
    pair = lambda x, y: lax.reduce((x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 2))  # fmt: skip
    yield "reduce a pair", Case(pair, drawn("pair", [(3, 4, 5)] * 2))
    windows = itertools.product(("add", "max", "min"), [(2, 1), (1, 2)], [(1, 1), (2, 1)], ["VALID", "SAME", ((0, 3), (1, 2))], [(1, 1), (2, 3)], [(1, 1), (1, 2)])  # fmt: skip
    for name, dims, strides, padding, base, window in windows:
        if name != "add" and window != (1, 1):
            continue
        op, init, draw = monoids[name]
        run = partial(lambda op, init, rest, x: lax.reduce_window(x, init, op, *rest), op, init, (dims, strides, padding, base, window))  # fmt: skip
        yield f"reduce_window {name} {dims} {strides} {padding} {base} {window}", Case(run, drawn("w", [(4, 6)], draw))  # fmt: skip
    for name, axis, reverse in itertools.product(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), range(3), (False, True)):  # fmt: skip
        yield f"{name} {axis} {reverse}", Case(partial(getattr(lax, name), axis=axis, reverse=reverse), drawn("c", [(3, 4, 2)], distinct if "m" in name[3:4] else normal))  # fmt: skip
    for shape, stable in itertools.product([(5,), (5, 7), (4, 9, 3)], (False, True)):
        axis = len(shape) - 1
        yield f"sort {shape} {stable}", Case(partial(lax.sort, dimension=axis, is_stable=stable), drawn("s", [shape], distinct))  # fmt: skip
        yield f"sort_key_val {shape} {stable}", Case(partial(lambda axis, stable, k, v: lax.sort_key_val(k, v, axis, stable), axis, stable), drawn("k", [shape] * 2, distinct))  # fmt: skip
    for shape, k in itertools.product([(4,), (5, 5)], (1, 3)):
        yield f"top_k {shape} {k}", Case(partial(lambda k, x: lax.top_k(x, k)[0], k), drawn("t", [shape], distinct))  # fmt: skip


def products() -> Iterator[tuple[str, Case]]:
    for left, right in itertools.product([(2,), (3, 2)], [(2,), (2, 4)]):
        yield f"dot {left} {right}", Case(lax.dot, drawn("d", [left, right]))
    general = [((3, 5), (2, 5), (([1], [1]), ([], []))), ((5, 3), (5, 2), (([0], [0]), ([], []))), ((3, 5, 2), (2, 4, 5), (([2], [0]), ([1], [2]))), ((7, 3, 5, 2), (2, 2, 4, 5), (([3], [0]), ([2], [3])))]  # fmt: skip
    for n, (left, right, dims) in enumerate(general):
        yield f"dot_general {n}", Case(partial(lax.dot_general, dimension_numbers=dims), drawn("d", [left, right]))  # fmt: skip
    layouts = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("NHWC", "OIHW", "NCHW")]
    choices = itertools.product([(1, 1), (2, 1), (1, 2)], [(1, 1), (2, 1)], [((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, -1), (0, 0))], [(1, 1), (2, 1)], [(1, 1), (2, 2)], layouts)  # fmt: skip
    for (batches, groups), strides, pads, left, right, layout in choices:
        x = dict(zip("NCHW", (2 * batches, 2 * groups, 6, 7), strict=True))
        k = dict(zip("OIHW", (2 * batches * groups, 2, 1, 2), strict=True))
        shapes = [tuple(x[c] for c in layout[0]), tuple(k[c] for c in layout[1])]
        run = partial(lax.conv_general_dilated, window_strides=strides, padding=pads, lhs_dilation=left, rhs_dilation=right, dimension_numbers=layout, feature_group_count=groups, batch_group_count=batches)  # fmt: skip
        yield f"conv {batches, groups} {strides} {pads} {left} {right} {layout[0]}{layout[1][0]}", Case(run, drawn("c", shapes))  # fmt: skip


def indexed() -> Iterator[tuple[str, Case]]:
    kinds = [((5,), (2, 1), (2,), ((), (0,)), (1,)), ((10,), (3, 1), (3, 2), ((1,), ()), (2,)), ((10, 5), (3, 1), (3, 3), ((1,), (0,)), (1, 3))]  # fmt: skip
    for (n, (shape, places, updates, (window, gone), sizes)), mode in itertools.product(enumerate(kinds), ("clip", "fill", "promise_in_bounds")):  # fmt: skip
        rng = np.random.default_rng(n)
        far = 3 if mode == "promise_in_bounds" else 14
        where = rng.integers(0 if far == 3 else -far, far, places)
        take = lax.GatherDimensionNumbers(offset_dims=window, collapsed_slice_dims=gone, start_index_map=(0,))  # fmt: skip
        put = lax.ScatterDimensionNumbers(update_window_dims=window, inserted_window_dims=gone, scatter_dims_to_operand_dims=(0,))  # fmt: skip
        gather = partial(lambda i, d, s, m, x: lax.gather(x, i, d, slice_sizes=s, mode=m, fill_value=-1), where, take, sizes, mode)  # fmt: skip
        yield f"gather {n} {mode}", Case(gather, drawn("g", [shape]))
        apart = 3 * np.arange(places[0])[:, None] if n == 1 else rng.permutation(4)[: places[0], None]  # fmt: skip
        for name, at in (("add", where), ("max", where), ("min", where), ("mul", apart), ("", apart)):  # fmt: skip
            op = getattr(lax, f"scatter_{name}" if name else "scatter")
            run = partial(lambda op, i, d, m, one, x, u: op(x, i, u, d, mode=m, unique_indices=one), op, at, put, mode, at is apart)  # fmt: skip
            yield f"scatter {name} {n} {mode}", Case(run, drawn("s", [shape, updates]))


CASES: dict[str, Case] = dict(
    itertools.chain(
        elementwise(), numpy_functions(), structure(), reductions(), products(), indexed()
    )
)
