"""Operations that combine many elements into one: reductions, windows and running combinations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, bounds, static
from xlac.ir.faults import APPEARING, INFINITY
from xlac.ir.graph import Graph
from xlac.ir.op import Array, Op, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import check_axes, check_lengths, check_scalar, extent, several
from xlac.ops.control import bodies
from xlac.ops.numeric import COMBINE
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def check_combine(
    mnemonic: str, combine: str, x: Type, allowed: Sequence[str] = tuple(COMBINE)
) -> None:
    """A named combination, of an element type that it takes."""
    if combine not in allowed:
        raise ShapeError(
            f"{mnemonic} cannot combine by {combine!r}; there are {', '.join(allowed)}",
            attribute="combine",
        )
    if x.dtype is DType.BOOL and combine not in ("and", "or", "xor"):
        raise ShapeError(
            f"bool has no {combine}, got {x}",
            operand=0,
            hint="combine by and or or, or cast to i32 first",
        )
    if x.dtype.is_float and combine in ("and", "or", "xor"):
        raise ShapeError(f"{combine} takes integers or bool, got {x}", operand=0)


def check_reduced(
    mnemonic: str, combine: str, body: Graph | None, types: Sequence[Type]
) -> tuple[Type, ...]:
    """The operands that are reduced, of a node that has them, and with a body as many scalars to
    begin with.
    """
    if combine != "body":
        if len(types) != 1:
            raise ShapeError(f"{mnemonic} by {combine} takes one tensor, got {len(types)}")
        check_combine(mnemonic, combine, types[0], (*COMBINE, "body"))
        return (types[0],)
    if body is None or len(types) % 2 or not types:
        raise ShapeError(
            f"{mnemonic} by body takes a body, and as many initial values as tensors",
            attribute="body",
        )
    half = len(types) // 2
    xs, inits = types[:half], types[half:]
    for number, (x, init) in enumerate(zip(xs, inits, strict=True)):
        check_scalar(mnemonic, init, half + number)
        if x.shape != xs[0].shape or x.dtype is not init.dtype:
            raise ShapeError(
                f"{mnemonic} needs tensors of one shape and their types' initial values, got {x} and {init}",
                operand=number,
            )
    scalars = [x.with_shape(()) for x in xs]
    bodies.check(mnemonic, body, [*scalars, *scalars], scalars)
    return tuple(xs)


def created(combine: str) -> frozenset[str]:
    """What combining may create: of nothing, the largest is an infinity."""
    return frozenset({INFINITY}) if combine in ("max", "min") else APPEARING


@declare
class Reduce(Op):
    """Combines all elements along `axes`, which the result lacks.

    Combining nothing gives the identity. Halves accumulate in f32 and are rounded once. With
    `combine: body` the body takes the values so far, then the new ones, and gives the new values;
    the order in which elements meet is not fixed, so it must be associative.
    """

    mnemonic = "reduce"
    operands = ("*xs",)
    axes: tuple[int, ...] = ()
    combine: str = "add"
    body: Graph | None = None

    def infer(self, *types: Type) -> Types:
        xs = check_reduced(self.mnemonic, self.combine, self.body, types)
        check_axes(self.axes, xs[0].rank)
        kept = tuple(size for axis, size in enumerate(xs[0].shape) if axis not in self.axes)
        return several([x.with_shape(kept) for x in xs])

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        if self.body is None:
            return numeric.reduce(self.combine, arrays[0], self.axes)
        half = len(arrays) // 2
        xs = arrays[:half]
        kept = tuple(a for a in range(xs[0].ndim) if a not in self.axes)
        shape = tuple(xs[0].shape[a] for a in kept)
        count = prod(xs[0].shape[a] for a in self.axes)
        rows = [x.transpose(*self.axes, *kept).reshape(count, *shape) for x in xs]
        state = [
            np.broadcast_to(init, shape).astype(x.dtype)
            for x, init in zip(xs, arrays[half:], strict=True)
        ]
        for step in range(count):
            state = bodies.elementwise(self.body, [*state, *(row[step] for row in rows)])
        return state[0] if half == 1 else tuple(state)

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()), ((7,), (0,)), ((0,), (0,)), ((3, 0), (1,)), ((0, 3), (1,)), ((3, 5), (0,)), ((3, 5), (1,)),
            ((3, 5), ()), ((2, 3, 5), (0, 2)), ((2, 3, 5), (1,)), ((2, 3, 5, 7), (2, 3)), ((4999,), (0,)), ((71, 73), (0,)),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, s),), {"axes": a, "combine": "add"}) for s, a in cases]
        for combine in ("mul", "max", "min"):
            found.append(
                Sample((Type(DType.F32, (5, 17)),), {"axes": (1,), "combine": combine}, ("unit",))
            )
        for dtype in DType:
            combine = "and" if dtype is DType.BOOL else "max" if dtype.is_signed else "add"
            found.append(Sample((Type(dtype, (3, 37)),), {"axes": (1,), "combine": combine}))
        for combine in ("and", "or", "xor"):
            found.append(
                Sample((Type(DType.I32, (3, 5)),), {"axes": (0,), "combine": combine}, ("special",))
            )
        found.append(
            Sample((Type(DType.F32, (5, 9)),), {"axes": (1,), "combine": "max"}, ("special",))
        )
        return [*found, Sample((Type(DType.BOOL, (4, 0)),), {"axes": (1,), "combine": "and"})]


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
        shape = []
        for axis, size in enumerate(xs[0].shape):
            found = moves(
                size,
                self.window[axis],
                self.strides[axis],
                self.low[axis],
                self.high[axis],
                self.base_dilation[axis],
                self.window_dilation[axis],
            )
            shape.append(found)
        return several([x.with_shape(tuple(shape)) for x in xs])

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        result = self.infer(*(Type(DType.of(a.dtype), a.shape) for a in arrays))
        shape = static(result.shape if isinstance(result, Type) else result[0].shape)
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
        found = []
        for position in product(*(range(w) for w in self.window)):
            first = [p * d for p, d in zip(position, self.window_dilation, strict=True)]
            cut = tuple(
                slice(f, f + (n - 1) * s + 1 if n else f, s)
                for f, n, s in zip(first, shape, self.strides, strict=True)
            )
            found.append(padded[cut] if prod(shape) else np.empty(shape, x.dtype))
        return found

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
        found = [
            case((7,), window=(3,)), case((7,), "add", window=(3,), strides=(2,), low=(1,), high=(1,)),
            case((7,), "add", window=(2,), window_dilation=(3,)), case((5,), "add", window=(3,), base_dilation=(2,)),
            case((7,), "min", window=(3,), low=(-1,), high=(-2,)), case((2,), window=(3,)), case((0,), window=(3,), low=(3,)),
            case((3, 5), "mul", DType.F32, "unit", window=(2, 2)), case((5, 6), "max", DType.F32, "special", window=(2, 3)),
            case((), window=()), case((1, 2, 9, 9), **image), case((2, 3, 8, 7), **image, low=(0, 0, 1, 1), high=(0, 0, 1, 1)),
            case((1, 1, 71, 71), "add", **image),
        ]  # fmt: skip
        for dtype in DType:
            found.append(
                case((3, 9), "or" if dtype is DType.BOOL else "add", dtype, "small", window=(2, 3))
            )
        return found


def moves(
    size: Dim,
    window: int,
    stride: int,
    low: Dim,
    high: Dim,
    base_dilation: int = 1,
    dilation: int = 1,
) -> Dim:
    """How many places a window takes along an axis: none when it does not fit."""
    for value, name in (
        (stride, "strides"),
        (base_dilation, "base_dilation"),
        (dilation, "window_dilation"),
    ):
        if value < 1:
            raise ShapeError(f"{name} must be at least 1, got {value}", attribute=name)
    if window < 0:
        raise ShapeError(f"a window of {window} elements", attribute="window")
    spread = size + extent(size - 1) * (base_dilation - 1) + low + high
    covered = (window - 1) * dilation + 1 if window else 0
    if bounds(spread - covered)[1] < 0 or spread == 0:
        return 0
    return (spread - covered) // stride + 1


@declare
class Cumulative(Op):
    """Running combinations along `axis`: element i combines elements 0..i, or 0..i-1 when
    `exclusive`.

    `reverse` runs from the end. Halves accumulate in f32, and each result is rounded.
    """

    mnemonic = "cumulative"
    axis: int = 0
    combine: str = "add"
    reverse: bool = False
    exclusive: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_combine(self.mnemonic, self.combine, x)
        if normal_axis(self.axis, x.rank) != self.axis:
            raise ShapeError(f"axis {self.axis} must count from the start", attribute="axis")
        return x

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        flipped = np.flip(x, self.axis) if self.reverse else x
        result = numeric.accumulate(self.combine, flipped, self.axis)
        if self.exclusive and x.shape[self.axis]:
            first = np.full_like(
                np.take(result, [0], self.axis), numeric.identity(self.combine, DType.of(x.dtype))
            )
            result = np.concatenate([first, np.delete(result, -1, self.axis)], self.axis)
        return np.ascontiguousarray(np.flip(result, self.axis) if self.reverse else result)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = [
            Sample((Type(DType.F32, s),), {"axis": a, "combine": "add"})
            for s, a in (
                ((7,), 0),
                ((0,), 0),
                ((3, 5), 0),
                ((3, 5), 1),
                ((3, 0), 1),
                ((2, 3, 5), 1),
                ((2, 1, 3, 5), 3),
                ((4999,), 0),
            )
        ]
        for combine, draw in (("mul", "unit"), ("max", "special"), ("min", "special")):
            found.append(
                Sample((Type(DType.F32, (3, 11)),), {"axis": 1, "combine": combine}, (draw,))
            )
        for reverse, exclusive in ((True, False), (False, True), (True, True)):
            given = {"axis": 1, "combine": "add", "reverse": reverse, "exclusive": exclusive}
            found.append(Sample((Type(DType.F32, (3, 7)),), given))
        for dtype in DType:
            combine = "xor" if dtype is DType.BOOL else "add"
            found.append(
                Sample((Type(dtype, (2, 9)),), {"axis": 1, "combine": combine}, ("small",))
            )
        return found
