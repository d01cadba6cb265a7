"""Elements repeated, turned around, shifted, bordered and moved between channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import check_table
from xlac.ops.tensor.arrange import F, Ints, View, axis_of, every
from xlac_sdk.dtypes import DType


@declare
class Tile(View):
    """Copies of x side by side, `repeats` along each axis; missing leading axes count as one
    element.
    """

    mnemonic = "tile"
    repeats: tuple[int, ...] = ()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if any(r < 0 for r in self.repeats):
            raise ShapeError(f"repeats {list(self.repeats)} are negative", attribute="repeats")
        rank = max(x.type.rank, len(self.repeats))
        shape = (*[1] * (rank - x.type.rank), *x.shape)
        by = (*[1] * (rank - len(self.repeats)), *self.repeats)
        apart = [size for pair in zip(by, shape, strict=True) for size in pair]
        spread = (
            build.spread(build.reshape(x, shape), tuple(apart), range(1, 2 * rank, 2))
            if any(r != 1 for r in by)
            else x
        )
        return build.reshape(spread, [size * r for size, r in zip(shape, by, strict=True)])

    def evaluate(self, *arrays: Array) -> Array:
        return np.tile(arrays[0], self.repeats)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()),
            ((3,), (2,)),
            ((3, 5), (2, 1)),
            ((3, 5), (2,)),
            ((3,), (2, 2)),
            ((3, 5), (0, 1)),
            ((0, 3), (2, 2)),
            ((1, 1), (1, 1)),
        ]
        return [Sample((Type(F, s),), {"repeats": r}) for s, r in cases] + every(
            (3, 2), repeats=(1, 2)
        )


@declare
class Repeat(View):
    """Every element `repeats` times in a row, along `axis`."""

    mnemonic = "repeat"
    repeats: int = 1
    axis: int = 0

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.repeats < 0:
            raise ShapeError(f"repeats {self.repeats} is negative", attribute="repeats")
        axis = axis_of(self.axis, x.type.rank)
        shape = (*x.shape[: axis + 1], self.repeats, *x.shape[axis + 1 :])
        kept = [a for a in range(len(shape)) if a != axis + 1]
        return build.reshape(
            build.spread(x, shape, kept),
            (*x.shape[:axis], x.shape[axis] * self.repeats, *x.shape[axis + 1 :]),
        )

    def evaluate(self, *arrays: Array) -> Array:
        return np.repeat(arrays[0], self.repeats, self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [
            ((3,), 2, 0),
            ((3, 5), 3, 1),
            ((3, 5), 1, -1),
            ((3, 5), 0, 0),
            ((0, 3), 2, 0),
        ]
        return [Sample((Type(F, s),), {"repeats": r, "axis": a}) for s, r, a in cases] + every(
            (3,), repeats=2
        )


@declare
class Flip(View):
    """x backwards along `axis`: one, several, or all when absent."""

    mnemonic = "flip"
    axis: int | tuple[int, ...] | None = None

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axes = build.axes_of(self.axis, x.type.rank)
        if not axes:
            return x
        turned = [a in axes for a in range(x.type.rank)]
        starts = [size - 1 if t else 0 for size, t in zip(x.shape, turned, strict=True)]
        stops = [-1 if t else size for size, t in zip(x.shape, turned, strict=True)]
        return (
            x if 0 in x.shape else build.slice_(x, starts, stops, [-1 if t else 1 for t in turned])
        )

    def evaluate(self, *arrays: Array) -> Array:
        return np.flip(arrays[0], self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [
            ((), None),
            ((7,), 0),
            ((3, 5), None),
            ((3, 5), 1),
            ((2, 3, 5), (0, -1)),
            ((0, 3), 1),
            ((3, 0), 0),
        ]
        return [Sample((Type(F, s),), {"axis": a}) for s, a in cases] + every((5,))


@declare
class Roll(View):
    """x moved on by `shift` along `axis`; what leaves at one end comes back at the other."""

    mnemonic = "roll"
    shift: int = 0
    axis: int = 0

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axis = axis_of(self.axis, x.type.rank)
        size = x.shape[axis]
        if isinstance(size, int):
            by = self.shift % size if size else 0
        elif abs(self.shift) > 1:
            raise ShapeError(
                f"roll by {self.shift} needs to know the size of axis {axis} of {x.type}", operand=0
            )
        else:
            by = self.shift
        if not by:
            return x
        edge = size - by if by > 0 else -by
        return build.concat((build.cut(x, axis, edge, size), build.cut(x, axis, 0, edge)), axis)

    def evaluate(self, *arrays: Array) -> Array:
        return np.roll(arrays[0], self.shift, self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [
            ((7,), 2, 0),
            ((7,), -2, 0),
            ((7,), 9, 0),
            ((3, 5), 1, 1),
            ((3, 5), 0, 0),
            ((0, 3), 1, 0),
            ((3, 0), 1, 0),
        ]
        return [Sample((Type(F, s),), {"shift": k, "axis": a}) for s, k, a in cases] + every(
            (5,), shift=2
        )


@declare
class PadMode(View):
    """x with a border: `pads` elements (low, high) on each axis, filled as `mode` says.

    `constant` fills with `value`, `edge` repeats the last element, `reflect` mirrors without
    repeating it, `wrap` goes on from the other end.
    """

    mnemonic = "pad_mode"
    pads: tuple[tuple[int, int], ...] = ()
    mode: Literal["constant", "edge", "reflect", "wrap"] = "constant"
    value: float | int = 0

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if len(self.pads) != x.type.rank or any(p < 0 for pair in self.pads for p in pair):
            raise ShapeError(
                f"pads need a (low, high) pair of sizes for each axis of {x.type}", attribute="pads"
            )
        if self.mode == "constant":
            value = bool(self.value) if x.type.dtype is DType.BOOL else self.value
            return build.pad(x, value, [p[0] for p in self.pads], [p[1] for p in self.pads])
        for axis, (low, high) in enumerate(self.pads):
            if low or high:
                x = build.take(x, build.constant(self.source(x.type, axis, low, high)), axis)
        return x

    def source(self, x: Type, axis: int, low: int, high: int) -> Array:
        """Which element of an axis each element of the padded one is."""
        size = x.shape[axis]
        if not isinstance(size, int):
            raise ShapeError(
                f"{self.mode} padding needs to know the size of axis {axis} of {x}", operand=0
            )
        if size == 0 or (self.mode == "reflect" and max(low, high) >= size):
            raise ShapeError(
                f"{self.mode} padding of {max(low, high)} needs more than {size} elements "
                f"along axis {axis}",
                attribute="pads",
            )
        mode: Literal["edge", "reflect", "wrap"] = self.mode if self.mode != "constant" else "edge"
        check_table(self.mnemonic, size + low + high, x)
        return np.pad(np.arange(size), (low, high), mode=mode)

    def evaluate(self, *arrays: Array) -> Array:
        if self.mode == "constant":
            return np.pad(arrays[0], self.pads, constant_values=arrays[0].dtype.type(self.value))
        return np.pad(arrays[0], self.pads, mode=self.mode)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [
            Sample((Type(F, (4, 5)),), {"pads": ((1, 2), (0, 3)), "mode": m})
            for m in ("constant", "edge", "reflect", "wrap")
        ]
        samples += [
            Sample((Type(F, (2, 3, 4)),), {"pads": ((0, 0), (0, 0), (2, 2)), "mode": "reflect"}),
            Sample((Type(F, (0, 2)),), {"pads": ((1, 0), (1, 1)), "value": 2.5}),
        ]
        return samples + every((3,), pads=((1, 1),), mode="edge")


@declare
class PixelShuffle(View):
    """Channels to space: (batch, channels * factor**2, h, w) becomes (batch, channels, h * factor,
    w * factor).
    """

    mnemonic = "pixel_shuffle"
    factor: int = 2

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        r = self.factor
        if x.type.rank != 4 or r < 1 or not isinstance(x.shape[1], int) or x.shape[1] % (r * r):
            needed = f"(batch, channels * {r * r}, height, width)"
            raise ShapeError(f"pixel_shuffle by {r} needs {needed}, got {x.type}", operand=0)
        n, c, h, w = x.shape
        apart = build.reshape(x, (n, c // (r * r), r, r, h, w))
        return build.reshape(
            build.transpose(apart, (0, 1, 4, 2, 5, 3)), (n, c // (r * r), h * r, w * r)
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [
            ((2, 8, 3, 5), 2),
            ((1, 9, 2, 2), 3),
            ((0, 4, 3, 5), 2),
            ((1, 3, 2, 2), 1),
        ]
        return [Sample((Type(F, s),), {"factor": k}) for s, k in cases] + every((1, 4, 2, 3))


@declare
class PixelUnshuffle(View):
    """Space to channels, the opposite of `pixel_shuffle`."""

    mnemonic = "pixel_unshuffle"
    factor: int = 2

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        r = self.factor
        if x.type.rank != 4 or r < 1 or any(isinstance(d, int) and d % r for d in x.shape[2:]):
            needed = f"(batch, channels, height * {r}, width * {r})"
            raise ShapeError(f"pixel_unshuffle by {r} needs {needed}, got {x.type}", operand=0)
        n, c, h, w = x.shape
        apart = build.reshape(x, (n, c, h // r, r, w // r, r))
        return build.reshape(
            build.transpose(apart, (0, 1, 3, 5, 2, 4)), (n, c * r * r, h // r, w // r)
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [((2, 2, 6, 10), 2), ((1, 1, 6, 6), 3), ((0, 4, 2, 4), 2)]
        return [Sample((Type(F, s),), {"factor": k}) for s, k in cases] + every((1, 1, 2, 4))
