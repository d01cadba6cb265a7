"""Accumulations with data made to lose digits, and the bounds that docs/SPEC.md states for them.

A large first term, then terms of which each is rounded away where it is added to that: one
accumulator that takes them one after another is off by half of their sum, a block only by what a
block holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.codegen.core.contraction.partial_tiles import WHOLE
from xlac.codegen.core.summation import BLOCK
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.error_bounds import SUMS
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType

Array = NDArray[Any]
U = 2.0**-24  # the rounding of f32
SUM, DOT, RUN = (SUMS[name].cpu for name in ("reduce", "dot", "cumulative"))
# what the schedules' blocks say: a block, its pair, lanes and vectors as a tree, the result
assert (BLOCK + 24, WHOLE + 24) == (SUM, DOT)


def param(name: str, *shape: int, dtype: DType = DType.F32) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def terms(*shape: int, axis: int = 0, seed: int = 0) -> Array:
    """Ones at the start of every sum along an axis, then what is rounded away beside them; all
    positive.
    """
    rng = np.random.default_rng(seed)
    found = (rng.random(shape) * 2.0**-25).astype(np.float32)
    first = [slice(None)] * len(shape)
    first[axis] = slice(0, 1)
    found[tuple(first)] = 1.0
    last = [slice(None)] * len(shape)
    last[axis] = slice(-3, None)
    found[tuple(last)] = 0.25  # what a tail counts twice or leaves out shows
    return found


def off(found: Array, exact: Array, sizes: Array) -> float:
    """How far results are off, in roundings of the sum of the magnitudes."""
    assert found.shape == exact.shape
    return float(np.max(np.abs(found.astype(np.float64) - exact) / (sizes * U)))


# ---- the accumulations ---------------------------------------------------------------------------


def reduced(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[Node, dict[str, Array], Array, float]:
    feeds = {"x": terms(*shape, axis=axes[0])}
    return (
        Node.of(Reduce(axes=axes, combine="add"), param("x", *shape)),
        feeds,
        feeds["x"].sum(axes, dtype=np.float64),
        SUM,
    )


def cumulative(
    shape: tuple[int, ...], axis: int, **given: bool
) -> tuple[Node, dict[str, Array], Array, float]:
    x = terms(*shape, axis=axis)
    op = Cumulative(axis=axis, combine="add", **given)
    wide = np.flip(x, axis) if given.get("reverse") else x
    exact = np.cumsum(wide, axis, dtype=np.float64)
    if given.get("exclusive"):
        exact = exact - wide
    return (
        Node.of(op, param("x", *shape)),
        {"x": x},
        np.flip(exact, axis) if given.get("reverse") else exact,
        RUN,
    )


def windowed(shape: tuple[int, int], window: int) -> tuple[Node, dict[str, Array], Array, float]:
    x = terms(*shape, axis=1)
    ones, zeros = (1, 1), (0, 0)
    op = Window("add", None, (1, window), ones, zeros, zeros, ones, ones)
    exact = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), window, 1).sum(-1)
    return Node.of(op, param("x", *shape)), {"x": x}, exact, SUM


def product(
    rows: int, depth: int, columns: int, turned: bool = False
) -> tuple[Node, dict[str, Array], Array, float]:
    a, b = terms(rows, depth, axis=1), np.ones((depth, columns), np.float32)
    right = np.ascontiguousarray(b.T) if turned else b
    op = Dot((), (), (1,), (1 if turned else 0,))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return (
        Node.of(op, param("a", rows, depth), param("b", *right.shape)),
        {"a": a, "b": right},
        exact,
        DOT,
    )


def weight_gradient(batch: int, size: int) -> tuple[Node, dict[str, Array], Array, float]:
    """Of a convolution of one tap: the sum goes over the batch and the pixels."""
    x, g = terms(batch, 8, size, size), np.ones((batch, 16, size, size), np.float32)
    ones, zeros = (1, 1), (0, 0)
    layout = ("CNHW", "IOHW", "CNHW")
    op = Conv(layout, ones, zeros, zeros, ones, ones)
    exact = np.einsum("nchw,nohw->oc", x.astype(np.float64), g.astype(np.float64))[:, :, None, None]
    return Node.of(op, param("x", *x.shape), param("g", *g.shape)), {"x": x, "g": g}, exact, DOT


def scattered(rows: int, count: int, width: int) -> tuple[Node, dict[str, Array], Array, float]:
    x, updates = np.zeros((rows, width), np.float32), terms(count, width)
    places = (np.arange(count) % min(rows, 3)).astype(np.int32)
    updates[:3] = 1.0
    exact = np.zeros((rows, width))
    np.add.at(exact, places, updates.astype(np.float64))
    rows = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    op = Scatter(combine="add", **rows)
    node = Node.of(
        op, param("x", *x.shape), param("at", count, dtype=DType.I32), param("u", *updates.shape)
    )
    return node, {"x": x, "at": places, "u": updates}, exact, SUM


Case = Callable[[int], tuple[Node, dict[str, Array], Array, float]]
SMALL: Mapping[str, Case] = {
    "rows": lambda n: reduced((3, 20 * n), (1,)),
    "columns": lambda n: reduced((9 * n, 40), (0,)),
    "all": lambda n: reduced((60 * n,), (0,)),
    "middle": lambda n: reduced((5, 3 * n + 1, 7), (1,)),
    "outer and inner": lambda n: reduced((n // 3, 3, 49), (0, 2)),
    "few columns": lambda n: reduced((30 * n, 2), (0,)),
    "running": lambda n: cumulative((9 * n,), 0),
    "running across": lambda n: cumulative((3 * n, 20), 0),
    "running back": lambda n: cumulative((2, 5 * n), 1, reverse=True),
    "running before": lambda n: cumulative((2, 5 * n), 1, exclusive=True),
    "window": lambda n: windowed((2, 5 * n), 2 * n + 1),
    "product": lambda n: product(17, 9 * n + 1, 24),
    "product of columns": lambda n: product(5, 9 * n + 1, 9, turned=True),
    "dot": lambda n: product(1, 60 * n + 1, 1),
    "row by matrix": lambda n: product(1, 8 * n, 33),
    "weight gradient": lambda n: weight_gradient(n // 25, 14),
    "scatter into few": lambda n: scattered(4, 5 * n, 24),
    "scatter into some": lambda n: scattered(n, 9 * n, 24),
    "scatter into many": lambda n: scattered(60 * n, 3 * n, 24),
    "scatter of numbers": lambda n: scattered(50, 9 * n, 1),
}
LARGE: Mapping[str, Case] = {
    "all": lambda n: reduced((n,), (0,)),
    "columns": lambda n: reduced((n // 4, 2), (0,)),
    "running": lambda n: cumulative((n // 4,), 0),
    "dot": lambda n: product(1, n, 1),
    "product": lambda n: product(16, n // 64, 16),
    "scatter": lambda n: scattered(16, n // 64, 4),
}
