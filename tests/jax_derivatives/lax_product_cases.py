"""Cases of JAX's own checks: products, convolutions, and what reads and writes by indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jax import lax
from lax_case import Case, case

DOTS: list[Any] = [
    ((3, 5), (2, 5), (([1], [1]), ([], []))),
    ((5, 3), (5, 2), (([0], [0]), ([], []))),
    ((3, 5, 2), (2, 4, 5), (([2], [0]), ([1], [2]))),
    ((7, 3, 5, 2), (2, 2, 4, 5), (([3], [0]), ([2], [3]))),
]
LAYOUTS = [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("NHWC", "OIHW", "NCHW")]
INDEXED: list[Any] = [
    ((5,), (2, 1), (2,), ((), (0,)), (1,)),
    ((10,), (3, 1), (3, 2), ((1,), ()), (2,)),
    ((10, 5), (3, 1), (3, 3), ((1,), (0,)), (1, 3)),
]


def products() -> Iterator[tuple[str, Case]]:
    for left, right in itertools.product([(2,), (3, 2)], [(2,), (2, 4)]):
        yield f"dot {left} {right}", case(lax.dot, "d", [left, right])
    for n, (left, right, dims) in enumerate(DOTS):
        run = partial(lax.dot_general, dimension_numbers=dims)
        yield f"dot_general {n}", case(run, "d", [left, right])


def convolutions() -> Iterator[tuple[str, Case]]:
    choices = itertools.product(
        [(1, 1), (2, 1), (1, 2)],
        [(1, 1), (2, 1)],
        [((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, -1), (0, 0))],
        [(1, 1), (2, 1)],
        [(1, 1), (2, 2)],
        LAYOUTS,
    )
    for (batches, groups), strides, pads, left, right, layout in choices:
        x = dict(zip("NCHW", (2 * batches, 2 * groups, 6, 7), strict=True))
        k = dict(zip("OIHW", (2 * batches * groups, 2, 1, 2), strict=True))
        shapes = [tuple(x[c] for c in layout[0]), tuple(k[c] for c in layout[1])]
        run = partial(
            lax.conv_general_dilated,
            window_strides=strides,
            padding=pads,
            lhs_dilation=left,
            rhs_dilation=right,
            dimension_numbers=layout,
            feature_group_count=groups,
            batch_group_count=batches,
        )
        told = f"{batches, groups} {strides} {pads} {left} {right} {layout[0]}{layout[1][0]}"
        yield f"conv {told}", case(run, "c", shapes)


def indexed() -> Iterator[tuple[str, Case]]:
    modes = ("clip", "fill", "promise_in_bounds")
    for (n, kind), mode in itertools.product(enumerate(INDEXED), modes):
        shape, places, updates, (window, gone), sizes = kind
        rng = np.random.default_rng(n)
        far = 3 if mode == "promise_in_bounds" else 14
        where = rng.integers(0 if far == 3 else -far, far, places)
        take = lax.GatherDimensionNumbers(window, gone, (0,))
        put = lax.ScatterDimensionNumbers(window, gone, (0,))
        gather = partial(
            lambda i, d, s, m, x: lax.gather(x, i, d, slice_sizes=s, mode=m, fill_value=-1),
            *(where, take, sizes, mode),
        )
        yield f"gather {n} {mode}", case(gather, "g", [shape])
        count = places[0]
        apart = (3 * np.arange(count) if n == 1 else rng.permutation(4)[:count])[:, None]
        ways = {"add": where, "max": where, "min": where, "mul": apart, "": apart}
        for name, at in ways.items():
            op = getattr(lax, f"scatter_{name}" if name else "scatter")
            run = partial(
                lambda op, i, d, m, one, x, u: op(x, i, u, d, mode=m, unique_indices=one),
                *(op, at, put, mode, at is apart),
            )
            yield f"scatter {name} {n} {mode}", case(run, "s", [shape, updates])
