"""Functions of keras.ops that pad, move, sort and mask elements, and some that compute on them."""

from __future__ import annotations

import math
from typing import Any

from xlac.frontends.keras.call import listed
from xlac.frontends.keras.registry import ACTIVATIONS, operation
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operation("Pad")
def pad(x: Node, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Node:
    """x with a border: one width, one pair, or a pair for each axis."""
    rank = x.type.rank
    widths = pad_width if isinstance(pad_width, list | tuple) else [pad_width]
    pairs = [listed(w) for w in widths] if isinstance(widths[0], list | tuple) else [listed(widths)]
    pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
    pairs = pairs * rank if len(pairs) == 1 else pairs
    if mode not in ("constant", "reflect") or constant_values not in (None, 0):
        raise ShapeError(f"the mode {mode!r}, or a constant, is not supported")
    return build.apply1("pad_mode", x, pads=[tuple(pair) for pair in pairs], mode=mode)


@operation("BroadcastTo")
def broadcast_to(x: Node, shape: list[int | None]) -> Node:
    """x repeated to a shape, whose first size may be open as that of x is."""
    axes = len(shape) - x.type.rank
    wanted: list[Dim] = []
    for axis, size in enumerate(shape):
        if size is None and (axis < axes or x.shape[axis - axes] == 1):
            raise ShapeError(f"the size {axis} of {shape} is open")
        wanted.append(x.shape[axis - axes] if size is None else size)
    return build.broadcast_to(x, wanted)


@operation("Ravel")
def ravel(x: Node) -> Node:
    """All elements along one axis."""
    return build.reshape(x, (x.type.size,))


@operation("Moveaxis")
def moveaxis(x: Node, source: int | list[int], destination: int | list[int]) -> Node:
    """Axes moved to other places."""
    rank = x.type.rank
    before, after = ([n % rank for n in listed(axes)] for axes in (source, destination))
    if not len(before) == len(after) == len({*before}) == len({*after}):
        raise ShapeError(
            f"source {source} and destination {destination} must be as many different axes"
        )
    moved = dict(zip(after, before, strict=True))
    rest = iter(n for n in range(rank) if n not in before)
    return build.transpose(x, [moved[n] if n in moved else next(rest) for n in range(rank)])


@operation("Roll")
def roll(x: Node, shift: int, axis: int | None = None) -> Node:
    """Elements moved along an axis, those that leave it from the other end."""
    if axis is None:
        raise ShapeError("Roll without an axis is not supported")
    return build.apply1("roll", x, shift=shift, axis=axis)


@operation("Sort")
def sort(x: Node, axis: int = -1) -> Node:
    """Ascending along an axis."""
    return build.sort([x], axis % x.type.rank)[0]


@operation("Argsort")
def argsort(x: Node, axis: int = -1) -> Node:
    """The places of the elements in ascending order, equal ones in the order that they have."""
    return build.cast(build.apply1("argsort", x, axis=axis), DType.I32)


@operation("TakeAlongAxis")
def take_along_axis(x: Node, indices: Node, axis: int | None = None) -> Node:
    """The element at an index along an axis, for each place."""
    if axis is None:
        raise ShapeError("TakeAlongAxis without an axis is not supported")
    return build.apply1("take_along_axis", x, indices, axis=axis)


@operation("TopK")
def top_k(x: Node, k: int, sorted: bool = True) -> tuple[Node, Node]:
    """The largest elements of the last axis in descending order, and their places."""
    results = build.apply("topk", x, k=k, axis=-1)
    assert isinstance(results, tuple)
    values, places = results
    return values, build.cast(places, DType.I32)


def _masked(name: str, mnemonic: str) -> None:
    @operation(name)
    def build_masked(x: Node, k: int = 0) -> Node:
        return build.apply1(mnemonic, x, k=k)


_masked("Tril", "tril")
_masked("Triu", "triu")


@operation("Round")
def rounded(x: Node, decimals: int = 0) -> Node:
    """To the nearest integer, halves to the even one."""
    if decimals:
        raise ShapeError("rounding to decimals is not supported")
    return build.apply1("round", x) if x.type.dtype.is_float else x


@operation("Log10")
def log10(x: Node) -> Node:
    """The logarithm to base 10."""
    return build.mul(build.log(build.floating(x)), 1 / math.log(10))


@operation("Cumprod")
def cumprod(x: Node, axis: int | None = None, dtype: None = None) -> Node:
    """Products up to every element along an axis."""
    if axis is None:
        raise ShapeError("Cumprod without an axis is not supported")
    return build.apply1("cumprod", x, axis=axis)


@operation("Unstack")
def unstack(x: Node, num: int | None = None, axis: int = 0) -> tuple[Node, ...]:
    """The parts along an axis, without it."""
    axis %= x.type.rank
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"the size of axis {axis} of {x.type} must be known")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return tuple(build.reshape(build.cut(x, axis, n, n + 1), shape) for n in range(size))


@operation("Glu")
def glu(x: Node, axis: int = -1) -> Node:
    """The first half along an axis times the logistic function of the second."""
    parts = build.apply("split", x, parts=2, axis=axis)
    assert isinstance(parts, tuple)
    return build.mul(parts[0], build.apply1("sigmoid", parts[1]))


def _thresholded(name: str, known: str) -> None:
    @operation(name)
    def build_thresholded(x: Node, threshold: float = 0.5) -> Node:
        if threshold != 0.5:
            raise ShapeError(f"the threshold {threshold} is not supported")
        return ACTIVATIONS[known](x)


_thresholded("HardShrink", "hard_shrink")
_thresholded("SoftShrink", "soft_shrink")


@operation("Normalize")
def normalize(x: Node, axis: int = -1, order: int = 2, epsilon: float | None = None) -> Node:
    """x over its Euclidean norm along an axis."""
    if order != 2:
        raise ShapeError(f"norms of order {order} are not supported")
    least = 1e-7 if epsilon is None else epsilon
    total = build.apply1("sum", build.mul(x, x), axis=axis, keepdims=True)
    return build.mul(x, build.apply1("rsqrt", build.maximum(total, least * least)))
