"""Cases of JAX's own checks: what moves data, and reductions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jax import lax
from lax_case import Case, Draw, case, distinct, normal

SLICES = [
    ((7,), (4,), (7,), None),
    ((8,), (1,), (6,), (2,)),
    ((5, 3), (1, 1), (3, 1), None),
    ((7, 5, 3), (4, 0, 1), (7, 1, 3), None),
    ((3, 3, 5), (0, 2, 0), (3, 2, 5), (1, 2, 1)),
]
CUTS = [
    ((3,), (1,), (1,)), ((5, 3), (1, 1), (3, 1)), ((7, 5, 3), (4, 1, 0), (2, 0, 1)),
    ((5, 3), (-9, 9), (2, 2)),
]  # fmt: skip
RESHAPES = [
    ((3, 4), (12,), None), ((2, 2, 4), (2, 8), None), ((3, 4), (12,), (1, 0)),
    ((2, 2, 4), (2, 8), (2, 0, 1)),
]  # fmt: skip
BROADCASTS = [((2, 2), (0,), (2,)), ((2, 2), (1,), (2,)), ((2, 3), (), ())]
REDUCED = [
    ((), ()), ((3, 4, 5), ()), ((3, 4, 5), (0,)), ((3, 4, 5), (0, 2)), ((3, 4, 5), (0, 1, 2)),
    ((3, 0, 5), (1,)),
]  # fmt: skip
MONOIDS: dict[str, tuple[Any, float, Draw]] = {
    "add": (lax.add, 0.0, normal),
    "max": (lax.max, -np.inf, distinct),
    "min": (lax.min, np.inf, distinct),
    "mul": (lax.mul, 1.0, normal),
}


def structure() -> Iterator[tuple[str, Case]]:
    for shape in ((4,), (3, 4), (2, 3, 4)):
        yield from joined(shape)
    for shape, sizes in itertools.product([(), (2, 3)], [(), (2,), (1, 2)]):
        yield f"broadcast {shape} {sizes}", case(partial(lax.broadcast, sizes=sizes), "b", [shape])
    for n, (into, dims, shape) in enumerate(BROADCASTS):
        run = partial(lax.broadcast_in_dim, shape=into, broadcast_dimensions=dims)
        yield f"broadcast_in_dim {n}", case(run, "b", [shape])
    for n, (shape, into, perm) in enumerate(RESHAPES):
        run = partial(lambda into, perm, x: lax.reshape(x, into, perm), into, perm)
        yield f"reshape {n}", case(run, "r", [shape])
    for n, pads in enumerate([((1, 2, 1), (0, 1, 0)), ((-1, 0, 0), (-1, 0, 2))]):
        yield f"pad {n}", case(partial(lax.pad, padding_config=pads), "p", [(2, 3), ()])
    yield "rev", case(lambda x: lax.rev(x, (0, 1)), "rev", [(2, 3)])
    for n, which in enumerate([True, np.array([[True, False, True], [False, True, True]])]):
        yield f"select {n}", case(partial(lax.select, which), "s", [(2, 3), (2, 3)])
    for perm in itertools.permutations(range(3)):
        yield f"transpose {perm}", case(partial(lax.transpose, permutation=perm), "t", [(3, 4, 5)])


def joined(shape: tuple[int, ...]) -> Iterator[tuple[str, Case]]:
    """Pieces of 3, 1 and 4 along each axis put together, and cut apart."""
    for dim in range(len(shape)):
        shapes = [(*shape[:dim], size, *shape[dim + 1 :]) for size in (3, 1, 4)]
        whole = (*shape[:dim], 8, *shape[dim + 1 :])
        join = partial(lambda dim, *xs: lax.concatenate(xs, dim), dim)
        yield f"concatenate {shape} {dim}", case(join, "c", shapes)
        cut = partial(lax.split, sizes=(3, 1, 4), axis=dim)
        yield f"split {shape} {dim}", case(cut, "s", [whole])


def slices() -> Iterator[tuple[str, Case]]:
    for n, (shape, start, limit, strides) in enumerate(SLICES):
        run = partial(lax.slice, start_indices=start, limit_indices=limit, strides=strides)
        yield f"slice {n}", case(run, "s", [shape])
    for n, (shape, start, sizes) in enumerate(CUTS):
        run = partial(lambda at, sizes, x: lax.dynamic_slice(x, at, sizes), start, sizes)
        yield f"dynamic_slice {n}", case(run, "d", [shape])
        run = partial(lambda at, x, u: lax.dynamic_update_slice(x, u, np.array(at)), start)
        yield f"dynamic_update_slice {n}", case(run, "d", [shape, sizes])


def reductions() -> Iterator[tuple[str, Case]]:
    for (name, (op, init, draw)), (shape, dims) in itertools.product(MONOIDS.items(), REDUCED):
        run = partial(lambda op, init, dims, x: lax.reduce(x, init, op, dims), op, init, dims)
        yield f"reduce {name} {shape} {dims}", case(run, "r", [shape], draw)
    both = lambda a, b: (a[0] + b[0], a[1] * b[1])
    pair = lambda x, y: lax.reduce((x, y), (0.0, 1.0), both, (0, 2))
    yield "reduce a pair", case(pair, "pair", [(3, 4, 5)] * 2)
    scans = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
    for name, axis, reverse in itertools.product(scans, range(3), (False, True)):
        run = partial(getattr(lax, name), axis=axis, reverse=reverse)
        draw = distinct if "m" in name[3:4] else normal
        yield f"{name} {axis} {reverse}", case(run, "c", [(3, 4, 2)], draw)


def windows() -> Iterator[tuple[str, Case]]:
    choices = itertools.product(
        ("add", "max", "min"),
        [(2, 1), (1, 2)],
        [(1, 1), (2, 1)],
        ["VALID", "SAME", ((0, 3), (1, 2))],
        [(1, 1), (2, 3)],
        [(1, 1), (1, 2)],
    )
    for name, *rest in choices:
        if name != "add" and rest[-1] != (1, 1):
            continue
        op, init, draw = MONOIDS[name]
        run = partial(
            lambda op, init, rest, x: lax.reduce_window(x, init, op, *rest), op, init, rest
        )
        told = " ".join(map(str, rest))
        yield f"reduce_window {name} {told}", case(run, "w", [(4, 6)], draw)


def orders() -> Iterator[tuple[str, Case]]:
    for shape, stable in itertools.product([(5,), (5, 7), (4, 9, 3)], (False, True)):
        axis = len(shape) - 1
        run = partial(lax.sort, dimension=axis, is_stable=stable)
        yield f"sort {shape} {stable}", case(run, "s", [shape], distinct)
        run = partial(lambda axis, stable, k, v: lax.sort_key_val(k, v, axis, stable), axis, stable)
        yield f"sort_key_val {shape} {stable}", case(run, "k", [shape] * 2, distinct)
    for shape, k in itertools.product([(4,), (5, 5)], (1, 3)):
        run = partial(lambda k, x: lax.top_k(x, k)[0], k)
        yield f"top_k {shape} {k}", case(run, "t", [shape], distinct)
