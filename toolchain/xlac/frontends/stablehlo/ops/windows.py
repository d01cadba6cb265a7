"""Reductions over sliding windows, and select_and_scatter, the gradient of max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.dynamic import fixed, known
from xlac.frontends.stablehlo.ops.indexing import scattered
from xlac.frontends.stablehlo.ops.reductions import combination, halves, joined, regrouped
from xlac.frontends.stablehlo.regions import is_identity
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of, numbers, stored
from xlac.ir.dims import Dim, static
from xlac.ir.graph import Graph, Node
from xlac.ir.permutations import inverse
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.control.lifting import lifted
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.window import MOST_PLACES, Window
from xlac.ops.reduction.window_choice import SelectAndScatter
from xlac.ops.scalar.comparison import Compare
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class WindowGeometry:
    """A window over every axis: its sizes, strides, padding and dilations."""

    window: tuple[Dim, ...]
    strides: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """The fields by the names that xlac's `window` operation uses."""
        return {name: getattr(self, name) for name in self.__slots__}

    def running(self, shape: Sequence[Dim]) -> tuple[int, bool] | None:
        """The axis along which the window covers all elements up to each one (a scan), and whether
        it runs from the end; None if it is no scan.
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
    windows = WindowGeometry(
        site.integers("window_dimensions"),
        site.integers("window_strides", ones),
        low,
        high,
        site.integers("base_dilations", ones),
        site.integers("window_dilations", ones),
    )
    if any(len(given) != rank for given in windows.fields().values()):
        site.fail(f"its window does not fit rank {rank}")
    return windows


@operation("reduce_window")
def reduce_window(site: OperationSite) -> Built:
    """reduce_window: by a named combination if the region is one and the initial value is its
    identity, else with the region as its body.
    """
    xs, inits = halves(site)
    return reduced(xs, inits, geometry(site, len(xs[0].shape)), site.closed(0))


def reduced(
    xs: Sequence[TypedTensor], inits: Sequence[TypedTensor], window: WindowGeometry, body: Graph
) -> list[Value]:
    """Tensors reduced over a window by a region."""
    combine = combination(body, xs[0])
    if (
        combine
        and len(xs) == 1
        and all(is_identity(i, combine) for i in inits[0].parts if not xs[0].element.format)
    ):
        x = xs[0]
        if x.element.complex:
            return [x.each([moving(part, combine, window) for part in x.parts])]
        return [
            stored(
                joined(moving(numbers(x), combine, window), numbers(inits[0]), combine), x.element
            )
        ]
    running = window.running(xs[0].shape)
    if running is not None and not all(isinstance(n, int) for n in window.window):
        return stepwise(xs, inits, body, *running)
    node = Node.of(Window("body", body, **window.fields()), *nodes_of(xs), *nodes_of(inits))
    return regrouped(xs, build.results(node))


def stepwise(
    xs: Sequence[TypedTensor], inits: Sequence[TypedTensor], body: Graph, axis: int, reverse: bool
) -> list[Value]:
    """Running combinations by a region along an axis of open size, one step after another."""
    parts = nodes_of(xs)
    rank, count = parts[0].type.rank, len(parts)
    order = [axis, *(a for a in range(rank) if a != axis)]
    moved = [build.transpose(part, order) for part in parts]
    first = [
        build.spread(init, part.shape[1:], ())
        for init, part in zip(nodes_of(inits), moved, strict=True)
    ]

    def step(*values: Node) -> list[Node]:
        return [*lifted(body, values)] * 2

    graph = build.graph("step", [n.type for n in (*first, *first)], step)
    node = Node.of(Scan(graph, moved[0].shape[0], count, count, reverse), *first, *moved)
    back = inverse(order)
    return regrouped(xs, [build.transpose(y, back) for y in build.results(node)[count:]])


def dynamic_reduce_window(site: OperationSite) -> Built:
    """The custom call by which JAX writes a window that sizes decide: the numbers are operands."""
    count = len(site.results())
    site.takes(2 * count + 5)
    xs, inits = site.tensors(0, count), site.tensors(count, 2 * count)
    rank = len(xs[0].shape)
    at = range(2 * count, 2 * count + 5)
    sizes, padding = known(site, at[0]), known(site, at[4])
    strides, base, dilations = (fixed(site, n) for n in at[1:4])
    window = WindowGeometry(sizes, strides, padding[::2], padding[1::2], base, dilations)
    if not xs or any(len(given) != rank for given in window.fields().values()):
        site.fail(f"its window does not fit rank {rank}")
    if window.running(xs[0].shape) is None:
        if not all(isinstance(n, int) for n in sizes):
            site.fail(f"needs a window of known size, got {list(sizes)}", code="XL7212")
        zeros = (0,) * rank
        more = window.low, window.high, [n - 1 for n in window.base_dilation]
        xs = [
            x.each(
                [
                    build.pad(part, value, *more)
                    for part, value in zip(x.parts, init.parts, strict=True)
                ]
            )
            for x, init in zip(xs, inits, strict=True)
        ]
        window = replace(window, low=zeros, high=zeros, base_dilation=(1,) * rank)
    return reduced(xs, inits, window, site.computation())


CUSTOM_CALLS["stablehlo.dynamic_reduce_window"] = dynamic_reduce_window


def moving(x: Node, combine: str, window: WindowGeometry) -> Node:
    """A named combination over a window; one that covers all preceding elements becomes a
    cumulative operation.
    """
    running = window.running(x.shape)
    if running is not None:
        axis, reverse = running
        return Node.of(Cumulative(axis, combine, reverse), x)
    return Node.of(Window(combine, **window.fields()), x)


@operation("select_and_scatter")
def select_and_scatter(site: OperationSite) -> Built:
    """Each window selects one element by the first region; its source value is scattered to that
    position and combined by the second.
    """
    site.takes(3)
    x, source, init = site.tensors()
    window = geometry(site, len(x.shape))
    shape = x.shape
    if not all(isinstance(n, int) for n in shape) or x.element.complex:
        site.fail("needs an operand of known size that is not complex")
    combine = _chooses(site.closed(0))
    plain = x.element.plain and x.node.type.dtype.is_float and source.element == x.element
    small = prod(static(window.window)) <= MOST_PLACES
    if plain and small and combine and combination(site.closed(1), source) == "add":
        given = window.fields()
        del given["base_dilation"]
        wide = build.compute(source.node)
        total = Node.of(SelectAndScatter(combine=combine, **given), x.node, wide)
        return stored(
            joined(build.cast(total, source.node.type.dtype), numbers(init), "add"), x.element
        )
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
    (scatter,) = scattered(site, 1, [base], indices, [source], axes)
    return scatter.each([build.reshape(part, shape) for part in scatter.parts])


def _chooses(body: Graph) -> str:
    """What a select region computes: "max" or "min", the first among equals; "" for
    anything else.
    """
    (kept,) = body.outputs.values()
    if not isinstance(kept.op, Compare) or kept.inputs != body.inputs:
        return ""
    return {"ge": "max", "le": "min"}.get(kept.op.direction, "")


def _chosen(site: OperationSite, x: TypedTensor, places: Node, window: WindowGeometry) -> Node:
    """The flat index of the element that each window selects, -1 if the window covers
    only padding.
    """
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
