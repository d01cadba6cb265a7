"""Reductions under moving windows, and the scatter that is their derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.frontends.stablehlo.ops.indexing import scattered
from xlac.frontends.stablehlo.ops.reductions import combination, halves, joined, regrouped
from xlac.frontends.stablehlo.regions import is_identity, lifted
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, nodes_of, numbers, stored
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType

TAPS = 32  # places of a window, up to which each is an expression of its own


@dataclass(frozen=True, slots=True)
class WindowGeometry:
    """A window over every axis."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """By name, as the operation `window` has them."""
        return {name: getattr(self, name) for name in self.__slots__}

    def running(self, shape: Sequence[object]) -> tuple[int, bool] | None:
        """The axis along which the window holds all up to each element, and whether it runs from
        the end.
        """
        wide = [axis for axis, size in enumerate(self.window) if size != 1]
        plain = all(
            set(given) <= {1} for given in (self.strides, self.base_dilation, self.window_dilation)
        )
        if len(wide) != 1 or not plain:
            return None
        (axis,) = wide
        size = self.window[axis]
        others = any(self.low[a] or self.high[a] for a in range(len(shape)) if a != axis)
        if shape[axis] != size or others or {self.low[axis], self.high[axis]} != {0, size - 1}:
            return None
        return axis, self.high[axis] == size - 1


def geometry(site: OperationSite, rank: int) -> WindowGeometry:
    """The window that an operation's attributes describe."""
    ones = (1,) * rank
    low, high = site.pairs("padding", rank)
    found = WindowGeometry(
        site.integers("window_dimensions"),
        site.integers("window_strides", ones),
        low,
        high,
        site.integers("base_dilations", ones),
        site.integers("window_dilations", ones),
    )
    if any(len(given) != rank for given in found.fields().values()):
        site.fail(f"its window does not fit rank {rank}")
    return found


@operation("reduce_window")
def reduce_window(site: OperationSite) -> Built:
    """Reductions over windows: one that we name where the region is such and starts at its
    identity, else with the region as its body.
    """
    xs, inits = halves(site)
    window = geometry(site, len(xs[0].shape))
    body = site.closed(0)
    combine = combination(body, xs[0])
    if (
        combine
        and len(xs) == 1
        and all(is_identity(i, combine) for i in inits[0].parts if not xs[0].element.format)
    ):
        x = xs[0]
        if x.element.complex:
            return x.each([moving(part, combine, window) for part in x.parts])
        return stored(
            joined(moving(numbers(x), combine, window), numbers(inits[0]), combine), x.element
        )
    node = Node.of(Window("body", body, **window.fields()), *nodes_of(xs), *nodes_of(inits))
    return regrouped(xs, build.results(node))


def moving(x: Node, combine: str, window: WindowGeometry) -> Node:
    """A named combination under a window; one that holds all before each element is a running
    combination.
    """
    found = window.running(x.shape)
    if found is not None:
        axis, reverse = found
        return Node.of(Cumulative(axis, combine, reverse), x)
    return Node.of(Window(combine, **window.fields()), x)


@operation("select_and_scatter")
def select_and_scatter(site: OperationSite) -> Built:
    """Every window chooses one element by the first region; its source value is scattered there by
    the second.
    """
    site.takes(3)
    x, source, init = site.tensors()
    window = geometry(site, len(x.shape))
    shape = x.shape
    if not all(isinstance(n, int) for n in shape) or x.element.complex:
        site.fail("needs an operand of known size that is not complex")
    adds = combination(site.closed(1), source) == "add" and x.element == source.element
    some = 0 not in (*shape, *source.shape) and prod(window.window) <= TAPS
    if adds and x.element.plain and some:
        total = _gathered(site, x, source.node, window)
        return stored(joined(total, numbers(init), "add"), x.element)
    count = prod(n for n in shape if isinstance(n, int))
    places = build.reshape(build.iota((count,), 0, DType.I32), shape)
    chosen = _chosen(site, x, places, window)
    indices = build.reshape(chosen, (*chosen.shape, 1))
    base = init.each([build.spread(part, (count,), ()) for part in init.parts])
    axes = {
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": chosen.type.rank,
    }
    (found,) = scattered(site, 1, [base], indices, [source], axes)
    return found.each([build.reshape(part, shape) for part in found.parts])


def _gathered(site: OperationSite, x: TypedTensor, source: Node, window: WindowGeometry) -> Node:
    """For each place of the window the source values of windows that choose it, spread by the strides
    and added: no element waits for another.
    """
    select, value = site.closed(0), x.node
    padded = build.pad(value, 0, window.low, window.high)
    number, chosen, everywhere = build.full(-1, source.shape, DType.I32), build.like(0, source), False  # fmt: skip
    taps = list(product(*map(range, window.window)))
    for n, tap in enumerate(taps):
        starts = [k * d for k, d in zip(tap, window.window_dilation, strict=True)]
        stops = [a + (known(c) - 1) * s + 1 for a, c, s in zip(starts, source.shape, window.strides, strict=True)]  # fmt: skip
        part = build.slice_(padded, starts, stops, window.strides)
        (keeps,) = lifted(select, [chosen, part])
        inside = _inside(window, tap, value.shape, source.shape)
        if inside is not None:
            keeps = build.apply1("or", keeps, build.apply1("not", inside))
        if not everywhere:
            keeps = build.apply1("and", keeps, build.compare(number, "ge", 0))
        everywhere |= inside is None
        here = build.like(n, number) if inside is None else build.select(inside, build.like(n, number), build.like(-1, number))  # fmt: skip
        chosen, number = build.select(keeps, chosen, part), build.select(keeps, number, here)
    total: Node | None = None
    between = [s - 1 for s in window.strides]
    for n, tap in enumerate(taps):
        kept = build.select(build.compare(number, "eq", n), source, 0.0)
        low = [k * d - p for k, d, p in zip(tap, window.window_dilation, window.low, strict=True)]
        high = [known(size) - a - (known(c) - 1) * s - 1 for size, a, c, s in zip(value.shape, low, source.shape, window.strides, strict=True)]  # fmt: skip
        spread = build.pad(kept, 0, low, high, between)
        total = spread if total is None else build.add(total, spread)
    assert total is not None
    return total


def _inside(window: WindowGeometry, tap: Sequence[int], shape: Shape, counts: Shape) -> Node | None:
    """Where one place of the window sees the operand and not its padding; None: everywhere."""
    found: Node | None = None
    for axis, (size, count) in enumerate(zip(shape, counts, strict=True)):
        first = tap[axis] * window.window_dilation[axis] - window.low[axis]
        along = first + np.arange(known(count)) * window.strides[axis]
        real = (along >= 0) & (along < known(size))
        if not real.all():
            part = build.spread(build.constant(real), counts, (axis,))
            found = part if found is None else build.apply1("and", found, part)
    return found


def known(size: Dim) -> int:
    """A size that is known."""
    assert isinstance(size, int)
    return size


def _chosen(site: OperationSite, x: TypedTensor, places: Node, window: WindowGeometry) -> Node:
    """The flat position of the element that each window chooses, -1 where it sees padding only."""
    select = site.closed(0)
    value, place = x.node.type.with_shape(()), Type(DType.I32)

    def later(v: Node, i: Node, w: Node, j: Node) -> list[Node]:
        (keeps,) = lifted(select, [v, w])
        keeps = build.apply1(
            "and", build.compare(i, "ge", 0), build.apply1("or", keeps, build.compare(j, "lt", 0))
        )
        return [build.select(keeps, v, w), build.select(keeps, i, j)]

    body = build.graph("choose", [value, place, value, place], later)
    nothing = build.constant(0, x.node.type.dtype), build.constant(-1, DType.I32)
    node = Node.of(Window("body", body, **window.fields()), x.node, places, *nothing)
    return build.pick(node, 1)
