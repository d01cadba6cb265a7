"""Reading a tensor at places between its elements, which data gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype
from xlac.ops.tensor.gather import Gather
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
CUBIC_A = -0.75


def gathered(x: Node, places: Node) -> Node:
    """Elements of (batch, channels, size) at places (batch, count), clamped: (batch, channels,
    count).
    """
    op = Gather(
        offset_dims=(1,),
        collapsed_slice_dims=(2,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
        start_index_map=(2,),
        index_vector_dim=2,
        slice_sizes=(0 if x.shape[0] == 0 else 1, x.shape[1], 1),
    )
    return Node.of(op, x, places)


def reflected(where: Node, low: float, high: float) -> Node:
    """Places mirrored at both ends until they lie between them."""
    span = high - low
    if span <= 0:
        return build.like(low, where)
    beyond = build.apply1("abs", build.sub(where, low))
    folded = build.sub(
        beyond, build.mul(build.apply1("floor", build.div(beyond, 2 * span)), 2 * span)
    )
    return build.add(build.minimum(folded, build.sub(2 * span, folded)), low)


def keys(t: Node) -> list[Node]:
    """The weights of the 4 neighbours of a place that lies t (0 to 1) after the second (Keys'
    kernel).
    """
    a = CUBIC_A
    near = [t, build.sub(1.0, t)]
    inner = [
        build.add(build.mul(build.mul(build.sub(build.mul(d, a + 2), a + 3), d), d), 1.0)
        for d in near
    ]
    outer = []
    for d in (build.add(t, 1.0), build.sub(2.0, t)):
        outer.append(
            build.sub(
                build.mul(build.add(build.mul(build.sub(build.mul(d, a), 5 * a), d), 8 * a), d),
                4 * a,
            )
        )
    return [outer[0], inner[0], inner[1], outer[1]]


@dataclass(frozen=True, slots=True)
class Tap:
    """A neighbour along one axis: its place, held inside; its weight if any; and where it is
    inside, if that counts.
    """

    at: Node
    weight: Node | None
    inside: Node | None


def interpolated(
    x: Node,
    places: Sequence[Node],
    mode: str,
    padding: str,
    edges: Sequence[tuple[float, float]] = (),
) -> Node:
    """x (batch, channels, *sizes) at places, one (batch, count) for each spatial axis: (batch,
    channels, count).

    Elements lie at 0, 1, …; `mode` and `padding` are those of `grid_sample`. Between `edges` (-1
    and the size unless given) a place is inside.
    """
    sizes = [n for n in x.shape[2:] if isinstance(n, int)]
    bounds = edges or [(-1.0, float(n)) for n in sizes]
    taps = [
        _taps(at, n, mode, padding, *ends)
        for at, n, ends in zip(places, sizes, bounds, strict=True)
    ]
    flat = build.reshape(x, (*x.shape[:2], prod(sizes)))
    elements = flat if mode == "nearest" else build.compute(flat)
    total: Node | None = None
    for chosen in product(*taps):
        part = _corner(elements, chosen, sizes)
        total = part if total is None else build.add(total, part)
    assert total is not None
    return build.cast(total, x.type.dtype)


def _taps(where: Node, size: int, mode: str, padding: str, low: float, high: float) -> list[Tap]:
    """The neighbours of places along one axis."""
    if mode == "nearest":
        where = build.apply1("round", where)
    outside = build.apply1("or", build.compare(where, "lt", low), build.compare(where, "gt", high))
    if padding == "border" and mode != "cubic":  # which holds each neighbour inside, not the place
        where = build.minimum(build.maximum(where, 0.0), size - 1.0)
    elif padding == "reflection":
        where = build.select(outside, reflected(where, low, high), where)
    if mode == "nearest":
        return [_tap(where, None, size, padding, low, high)]
    first = build.apply1("floor", where)
    part = build.sub(where, first)
    weights = [build.sub(1.0, part), part] if mode == "linear" else keys(part)
    start = 0 if mode == "linear" else -1
    return [
        _tap(build.add(first, float(start + n)), w, size, padding, low, high)
        for n, w in enumerate(weights)
    ]


def _tap(at: Node, weight: Node | None, size: int, padding: str, low: float, high: float) -> Tap:
    inside: Node | None = None
    if padding == "reflection":
        outside = build.apply1("or", build.compare(at, "lt", low), build.compare(at, "gt", high))
        at = build.select(outside, reflected(at, low, high), at)
    elif padding == "zeros":
        inside = build.apply1(
            "and", build.compare(at, "ge", 0.0), build.compare(at, "le", size - 1.0)
        )
    held = build.minimum(build.maximum(at, 0.0), size - 1.0)
    return Tap(build.cast(held, DType.I64), weight, inside)


def _corner(x: Node, taps: Sequence[Tap], sizes: Sequence[int]) -> Node:
    """The share of one neighbour, which has a tap along each axis, in every place."""
    place: Node | None = None
    weight: Node | None = None
    inside: Node | None = None
    for tap, size in zip(taps, sizes, strict=True):
        place = tap.at if place is None else build.add(build.mul(place, size), tap.at)
        if tap.weight is not None:
            weight = tap.weight if weight is None else build.mul(weight, tap.weight)
        if tap.inside is not None:
            inside = tap.inside if inside is None else build.apply1("and", inside, tap.inside)
    assert place is not None
    pixels = gathered(x, place)

    def beside(node: Node) -> Node:
        return build.reshape(node, (node.shape[0], 1, node.shape[1]))

    if inside is not None:
        pixels = build.select(beside(inside), pixels, build.like(0, pixels))
    return (
        pixels
        if weight is None
        else build.mul(pixels, build.cast(beside(weight), pixels.type.dtype))
    )


@declare
class GridSample(Composite):
    """Elements of x (batch, channels, *sizes) at the places in `grid` (batch, *new sizes, rank).

    A place has a coordinate for each spatial axis, the last axis first: -1 and 1 are the ends of an
    axis, the middle of its outer elements if `align_corners`, else their outer edges. `linear` and
    `cubic` weigh 2 and 4 neighbours along each axis. What lies outside is 0, or the nearest element
    (`border`), or mirrored (`reflection`).
    """

    mnemonic = "grid_sample"
    operands = ("x", "grid")
    mode: Literal["linear", "nearest", "cubic"] = "linear"
    padding: Literal["zeros", "border", "reflection"] = "zeros"
    align_corners: bool = False

    def infer(self, *types: Type) -> Type:
        x, grid = types
        check_dtype(self.mnemonic, x, NUMBERS if self.mode == "nearest" else FLOATS)
        check_dtype(self.mnemonic, grid, FLOATS, 1)
        rank = x.rank - 2
        if rank < 1 or grid.rank != x.rank or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
            raise ShapeError(
                f"grid_sample of {x} needs a grid of {x.shape[0]} batches, as many axes, and "
                f"{max(rank, 1)} last, got {grid}",
                operand=1,
            )
        for size in x.shape[2:]:
            if not isinstance(size, int) or size == 0:
                raise ShapeError(f"grid_sample needs known sizes, not 0, got {x}", operand=0)
        return x.with_shape((*x.shape[:2], *grid.shape[1:-1]))

    def expand(self, *inputs: Node) -> Node:
        x, grid = inputs
        rank = x.type.rank - 2
        flat = build.compute(build.reshape(grid, (grid.shape[0], volume(grid.shape[1:-1]), rank)))
        places, edges = [], []
        for axis, size in enumerate(x.shape[2:]):
            assert isinstance(size, int)
            number = rank - 1 - axis
            at = build.add(
                build.reshape(build.cut(flat, 2, number, number + 1), flat.shape[:2]), 1.0
            )
            if self.align_corners:
                places.append(build.mul(at, (size - 1) / 2))
                edges.append((0.0, size - 1.0))
            else:
                places.append(build.div(build.sub(build.mul(at, float(size)), 1.0), 2.0))
                edges.append((-0.5, size - 0.5))
        values = interpolated(x, places, self.mode, self.padding, edges)
        shape: tuple[Dim, ...] = (*x.shape[:2], *grid.shape[1:-1])
        return build.reshape(values, shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            x: Ints,
            grid: Ints,
            dtype: DType = DType.F32,
            other: DType = DType.F32,
            /,
            **given: object,
        ) -> Sample:
            return Sample(
                (Type(dtype, x), Type(other, grid)),
                given,
                ("normal" if dtype.is_float else "small", "normal"),
            )

        image, grid = (2, 3, 5, 7), (2, 4, 3, 2)
        samples = [
            case(image, grid, mode=m, padding=p, align_corners=a)
            for m in ("linear", "nearest", "cubic")
            for p in ("zeros", "border", "reflection")
            for a in (False, True)
        ]
        samples += [
            case((1, 2, 9), (1, 5, 1)),
            case((1, 2, 3, 4, 5), (1, 2, 3, 2, 3)),
            case((0, 2, 3, 4), (0, 2, 3, 2)),
        ]
        samples += [case((1, 2, 1, 1), (1, 3, 3, 2), padding="reflection", align_corners=True)]
        samples += [
            case((1, 1, 3, 4), (1, 2, 2, 2), d, mode="nearest") for d in DType if d in NUMBERS
        ]
        return samples + [case((1, 1, 3, 4), (1, 2, 2, 2), d, d) for d in DType if d in FLOATS]
