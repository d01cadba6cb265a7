"""Reductions of windows that move over a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, Shape, static
from xlac.ir.graph import Graph, Node, apply, zeros
from xlac.ir.leading import with_initial_scalars
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import check_lengths, several
from xlac.ops.control import bodies
from xlac.ops.reduction.reduction import Ints, check_reduced, created, moves
from xlac_sdk.dtypes import DType

MOST_PLACES = 4096  # of a window that is differentiated place by place: each has nodes of its own


def _product_rule(values: Sequence[Node], changes: Sequence[Node]) -> Node:
    """The change of a product: that of each factor times all others, exact where some are 0."""
    before, total = values[0], changes[0]
    for value, change in zip(values[1:], changes[1:], strict=True):
        total = apply("add", apply("mul", total, value), apply("mul", before, change))
        before = apply("mul", before, value)
    return total


@declare
class Window(Op):
    """Combines the elements under a window as it moves over x; what lies outside is the identity
    (or init).

    Each axis of x is first spread by `base_dilation` (d - 1 gaps between neighbours), then padded
    by `low` and `high`; the window takes `window` elements `window_dilation` apart and moves by
    `strides`. Where it does not fit there is nothing: pools and convolutions say so as an error,
    this does as StableHLO.
    """

    mnemonic = "window"
    operands = ("*xs",)
    leading = {
        "window": 1,
        "strides": 1,
        "low": 0,
        "high": 0,
        "base_dilation": 1,
        "window_dilation": 1,
    }
    combine: str = "add"
    body: Graph | None = None
    window: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    base_dilation: tuple[int, ...] = ()
    window_dilation: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Types:
        xs = check_reduced(self.mnemonic, self.combine, self.body, types)
        check_lengths(
            self.mnemonic,
            xs[0].rank,
            window=self.window,
            strides=self.strides,
            low=self.low,
            high=self.high,
            base_dilation=self.base_dilation,
            window_dilation=self.window_dilation,
        )
        if 0 in self.window:
            raise ShapeError(
                f"a window takes at least one element along each axis, got {list(self.window)}",
                attribute="window",
            )
        shape = self._moved(xs[0].shape)
        return several([x.with_shape(shape) for x in xs])

    def _moved(self, shape: Shape) -> Shape:
        """How often the window fits along each axis."""
        return tuple(
            moves(
                size,
                self.window[axis],
                self.strides[axis],
                self.low[axis],
                self.high[axis],
                self.base_dilation[axis],
                self.window_dilation[axis],
            )
            for axis, size in enumerate(shape)
        )

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("xs",),) if self.combine == "add" else ()

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """A window of the same size moves over the cotangents, spread by the strides."""
        (ct,) = cotangents
        assert ct is not None
        x = node.inputs[0]
        if 0 in x.shape or 0 in ct.shape:
            return [zeros(x.type)]
        low: list[Dim] = []
        high: list[Dim] = []
        for axis, (size, count) in enumerate(zip(x.shape, ct.shape, strict=True)):
            reach = (self.window[axis] - 1) * self.window_dilation[axis]
            spread = (count - 1) * self.strides[axis] + 1
            low.append(reach - self.low[axis])
            high.append((size - 1) * self.base_dilation[axis] + reach + 1 - spread - low[-1])
        # sizes that the window does not move over may be open: they come to the same here
        back = replace(
            self,
            strides=self.base_dilation,
            base_dilation=self.strides,
            low=static(tuple(low)),
            high=static(tuple(high)),
        )
        return [Node.of(back, ct)]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Of a maximum: the change of the first largest element (or NaN) under each window. Of a
        product: the change of each element under it times all others.
        """
        (x, *_), (t, *_) = node.inputs, tangents
        if self.body is not None or self.combine not in ("mul", "max", "min"):
            return None
        if prod(self.window) > MOST_PLACES:
            return None
        assert t is not None
        if self.combine == "mul":
            seen, changes = (
                [
                    self.tap(n, filler, place, node.shape)
                    for place in product(*map(range, self.window))
                ]
                for n, filler in ((x, self.identity(x)), (t, zeros(t.type.with_shape(()))))
            )
            return [_product_rule(seen, changes)]
        return [self._chosen(x, t)]

    def identity(self, x: Node) -> Node:
        """What changes nothing where it is combined with elements of x."""
        value = numeric.identity(self.combine, x.type.dtype)
        return apply("const", value=np.asarray(value, x.type.dtype.numpy))

    def _chosen(self, x: Node, t: Node) -> Node:
        """The elements of t where those of x are chosen, added in the type that sums are made in
        when they are transposed.
        """
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        gaps = given.pop("base_dilation")
        if set(gaps) - {1}:  # chosen of x spread
            none, nothing = self.identity(x), zeros(t.type.with_shape(()))
            wide = {"low": self.low, "high": self.high, "interior": tuple(g - 1 for g in gaps)}
            x, t = apply("pad", x, none, **wide), apply("pad", t, nothing, **wide)
            given |= {"low": (0,) * len(gaps), "high": (0,) * len(gaps)}
        del given["body"]
        dtype = t.type.dtype
        if dtype is dtype.compute:
            return apply("select_and_gather", x, t, **given)
        wider = apply("cast", t, dtype=dtype.compute)
        return apply("cast", apply("select_and_gather", x, wider, **given), dtype=dtype)

    def tap(self, x: Node, filler: Node, place: Sequence[int], shape: Sequence[Dim]) -> Node:
        """What one place of the window sees of x, with a border of `filler`, for every place that
        it moves to: a tensor of the result's shape.
        """
        between = tuple(gap - 1 for gap in self.base_dilation)
        x = apply("pad", x, filler, low=self.low, high=self.high, interior=between)
        starts = tuple(p * gap for p, gap in zip(place, self.window_dilation, strict=True))
        stops = tuple(
            start + (count - 1) * stride + 1 if count != 0 else start
            for start, count, stride in zip(starts, shape, self.strides, strict=True)
        )
        return apply("slice", x, starts=starts, stops=stops, steps=self.strides)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return None if self.body is None else with_initial_scalars(node, inputs, mapped, size)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        shape = static(self._moved(arrays[0].shape))
        if self.body is None:
            wide = numeric.widen(arrays[0])
            views = self._taps(wide, numeric.identity(self.combine, DType.of(wide.dtype)), shape)
            return numeric.narrow(
                numeric.reduce(self.combine, np.stack(views), (0,)), arrays[0].dtype
            )
        half = len(arrays) // 2
        taps = [
            self._taps(x, init, shape) for x, init in zip(arrays[:half], arrays[half:], strict=True)
        ]
        state = [
            np.broadcast_to(i, shape).astype(x.dtype)
            for x, i in zip(arrays[:half], arrays[half:], strict=True)
        ]
        for step in range(len(taps[0])):
            state = bodies.elementwise(self.body, [*state, *(tap[step] for tap in taps)])
        return state[0] if half == 1 else tuple(state)

    def _taps(self, x: Array, filler: Any, shape: Ints) -> list[Array]:
        """What each position of the window sees: one array of the result's shape for each."""
        spread = tuple(
            n + max(0, n - 1) * (d - 1) for n, d in zip(x.shape, self.base_dilation, strict=True)
        )
        padded = np.full(
            tuple(max(0, n + a + b) for n, a, b in zip(spread, self.low, self.high, strict=True)),
            filler,
            x.dtype,
        )
        inner = np.full(spread, filler, x.dtype)
        inner[tuple(slice(None, None, d) for d in self.base_dilation)] = x
        source = tuple(
            slice(max(0, -a), max(0, n - max(0, -b)))
            for n, a, b in zip(spread, self.low, self.high, strict=True)
        )
        kept = inner[source]
        if kept.size:
            padded[
                tuple(
                    slice(max(0, a), max(0, a) + n)
                    for a, n in zip(self.low, kept.shape, strict=True)
                )
            ] = kept
        taps = []
        for position in product(*(range(w) for w in self.window)):
            first = [p * d for p, d in zip(position, self.window_dilation, strict=True)]
            cut = tuple(
                slice(f, f + (n - 1) * s + 1 if n else f, s)
                for f, n, s in zip(first, shape, self.strides, strict=True)
            )
            taps.append(padded[cut] if prod(shape) else np.empty(shape, x.dtype))
        return taps

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            shape: Ints,
            combine: str = "max",
            dtype: DType = DType.F32,
            draw: str = "normal",
            /,
            **given: Ints,
        ) -> Sample:
            ones, zeros = (1,) * len(shape), (0,) * len(shape)
            known: dict[str, Ints] = {
                "strides": ones,
                "low": zeros,
                "high": zeros,
                "base_dilation": ones,
                "window_dilation": ones,
            } | given
            return Sample((Type(dtype, shape),), {"combine": combine} | known, (draw,))

        image = {"window": (1, 1, 3, 3), "strides": (1, 1, 2, 2)}
        samples = [
            case((7,), window=(3,)),
            case((7,), "add", window=(3,), strides=(2,), low=(1,), high=(1,)),
            case((7,), "add", window=(2,), window_dilation=(3,)),
            case((5,), "add", window=(3,), base_dilation=(2,)),
            case((7,), "min", window=(3,), low=(-1,), high=(-2,)),
            case((2,), window=(3,)),
            case((0,), window=(3,), low=(3,)),
            case((3, 5), "mul", DType.F32, "unit", window=(2, 2)),
            case((5, 6), "max", DType.F32, "special", window=(2, 3)),
            case((), window=()),
            case((1, 2, 9, 9), **image),
            case((2, 3, 8, 7), **image, low=(0, 0, 1, 1), high=(0, 0, 1, 1)),
            case((1, 1, 71, 71), "add", **image),
        ]
        for dtype in DType:
            samples.append(
                case((3, 9), "or" if dtype is DType.BOOL else "add", dtype, "small", window=(2, 3))
            )
        return samples
