"""Rearranging tensors as users write it: splitting, stacking, flipping, tiling, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Array, Composite, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import check_same, dims, several
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
F = DType.F32


def axis_of(axis: int, rank: int) -> int:
    return normal_axis(axis, rank)


def every(shape: Ints, /, **attributes: object) -> list[Sample]:
    """The case for every element type."""
    return [Sample((Type(d, shape),), attributes) for d in DType]


class View(Composite):
    """One tensor, rearranged: the shape is that of the expansion."""

    def infer(self, *types: Type) -> Types:
        found = self.expand(*(build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)))
        return several([x.type for x in found]) if isinstance(found, tuple) else found.type


@declare
class Split(View):
    """Consecutive parts of x along `axis`: `parts` equal ones, or of the given `sizes`. Several results."""

    mnemonic = "split"
    parts: int = 0
    axis: int = 0
    sizes: tuple[Dim, ...] = ()

    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        (x,) = inputs
        axis = axis_of(self.axis, x.type.rank)
        size, parts = x.shape[axis], self.sizes
        if not parts:
            if self.parts < 1 or (isinstance(size, int) and size % self.parts):
                raise ShapeError(f"axis {axis} of {x.type} does not divide into {self.parts} parts", attribute="parts")
            parts = (size // self.parts,) * self.parts
        total: Dim = 0
        found = []
        for part in parts:
            found.append(build.cut(x, axis, total, total + part))
            total = total + part
        if total != size:
            raise ShapeError(f"parts {dims(parts)} do not make up axis {axis} of {x.type}", attribute="sizes" if self.sizes else "parts")
        return tuple(found) if len(found) > 1 else found[0]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [
            ((6,), {"parts": 2}), ((6,), {"sizes": (1, 2, 3)}), ((3, 6), {"parts": 3, "axis": -1}), ((0, 6), {"parts": 2, "axis": 1}),
            ((4, 5), {"sizes": (0, 4), "axis": 0}), ((3, 5), {"parts": 1}), ((2, 6, 5), {"parts": 2, "axis": 1}),
        ]  # fmt: skip
        return [Sample((Type(F, s),), g) for s, g in cases] + every((2, 6), parts=2, axis=1)


@declare
class Stack(View):
    """Tensors of one type as the entries of a new axis."""

    mnemonic = "stack"
    operands = ("*xs",)
    axis: int = 0

    def expand(self, *inputs: Node) -> Node:
        if not inputs:
            raise ShapeError("stack needs at least one tensor")
        first = check_same(self.mnemonic, [x.type for x in inputs])
        axis = axis_of(self.axis, first.rank + 1)
        shape = (*first.shape[:axis], 1, *first.shape[axis:])
        return build.concat([build.reshape(x, shape) for x in inputs], axis)

    def evaluate(self, *arrays: Array) -> Array:
        return np.stack(arrays, self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [((), 2, 0), ((3, 5), 3, 0), ((3, 5), 2, 1), ((3, 5), 2, -1), ((0, 5), 2, 0), ((3, 5), 1, 2)]
        found = [Sample((Type(F, s),) * n, {"axis": a}) for s, n, a in cases]
        return found + [Sample((Type(d, (3,)),) * 2, {"axis": 1}) for d in DType]


@declare
class Squeeze(View):
    """x without axes of extent 1: those of `axis`, or all of them."""

    mnemonic = "squeeze"
    axis: int | tuple[int, ...] | None = None

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.axis is None:
            axes = tuple(a for a, size in enumerate(x.shape) if size == 1)
        else:
            axes = build.axes_of(self.axis, x.type.rank)
        for axis in axes:
            if x.shape[axis] != 1:
                raise ShapeError(f"axis {axis} of {x.type} has {x.shape[axis]} elements, not 1", attribute="axis")
        return build.reshape(x, [size for a, size in enumerate(x.shape) if a not in axes])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [((1, 3, 1), None), ((1, 3, 1), 0), ((1, 3, 1), -1), ((1, 3, 1), (0, 2)), ((), None), ((0, 1), 1)]
        return [Sample((Type(F, s),), {"axis": a}) for s, a in cases] + every((1, 3))


@declare
class Unsqueeze(View):
    """x with new axes of extent 1, which are `axis` of the result."""

    mnemonic = "unsqueeze"
    axis: int | tuple[int, ...] = 0

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        new = (self.axis,) if isinstance(self.axis, int) else self.axis
        axes = build.axes_of(new, x.type.rank + len(new))
        rest = iter(x.shape)
        return build.reshape(x, [1 if a in axes else next(rest) for a in range(x.type.rank + len(axes))])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [((), 0), ((3,), 0), ((3,), -1), ((3, 5), (0, 2)), ((0, 3), 1)]
        return [Sample((Type(F, s),), {"axis": a}) for s, a in cases] + every((3,), axis=1)


@declare
class Flatten(View):
    """x with the axes from `axis` to `end` as one."""

    mnemonic = "flatten"
    axis: int = 0
    end: int = -1

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if not x.shape:
            return build.reshape(x, (1,))
        first, last = axis_of(self.axis, x.type.rank), axis_of(self.end, x.type.rank)
        if last < first:
            raise ShapeError(f"flatten from axis {first} to {last}", attribute="end")
        return build.reshape(x, (*x.shape[:first], volume(x.shape[first : last + 1]), *x.shape[last + 1 :]))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [((), {}), ((3,), {}), ((2, 3, 5), {}), ((2, 3, 5), {"axis": 1}), ((2, 3, 5, 7), {"axis": 1, "end": 2}), ((0, 3, 5), {"axis": 1})]
        return [Sample((Type(F, s),), g) for s, g in cases] + every((2, 3))


@declare
class Expand(View):
    """x repeated to fill `shape` as NumPy broadcasts; an extent of -1 stays as it is."""

    mnemonic = "expand"
    shape: Shape = ()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        before = len(self.shape) - x.type.rank
        wanted = tuple(x.shape[a - before] if size == -1 and a >= before else size for a, size in enumerate(self.shape))
        return build.broadcast_to(x, build.broadcast_shapes([x.shape, wanted]))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [((), (3,)), ((5,), (3, 5)), ((3, 1), (3, 5)), ((3, 1), (-1, 5)), ((1,), (0,)), ((3, 1), (2, 3, 5)), ((3, 5), (1, 1))]
        return [Sample((Type(F, s),), {"shape": t}) for s, t in cases] + every((3, 1), shape=(3, 5))


@declare
class Tile(View):
    """Copies of x side by side, `repeats` along each axis; missing leading axes count as one element."""

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
        spread = build.spread(build.reshape(x, shape), tuple(apart), range(1, 2 * rank, 2)) if any(r != 1 for r in by) else x
        return build.reshape(spread, [size * r for size, r in zip(shape, by, strict=True)])

    def evaluate(self, *arrays: Array) -> Array:
        return np.tile(arrays[0], self.repeats)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [((), ()), ((3,), (2,)), ((3, 5), (2, 1)), ((3, 5), (2,)), ((3,), (2, 2)), ((3, 5), (0, 1)), ((0, 3), (2, 2)), ((1, 1), (1, 1))]
        return [Sample((Type(F, s),), {"repeats": r}) for s, r in cases] + every((3, 2), repeats=(1, 2))


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
        return build.reshape(build.spread(x, shape, kept), (*x.shape[:axis], x.shape[axis] * self.repeats, *x.shape[axis + 1 :]))

    def evaluate(self, *arrays: Array) -> Array:
        return np.repeat(arrays[0], self.repeats, self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [((3,), 2, 0), ((3, 5), 3, 1), ((3, 5), 1, -1), ((3, 5), 0, 0), ((0, 3), 2, 0)]
        return [Sample((Type(F, s),), {"repeats": r, "axis": a}) for s, r, a in cases] + every((3,), repeats=2)


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
        return x if 0 in x.shape else build.slice_(x, starts, stops, [-1 if t else 1 for t in turned])

    def evaluate(self, *arrays: Array) -> Array:
        return np.flip(arrays[0], self.axis)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [((), None), ((7,), 0), ((3, 5), None), ((3, 5), 1), ((2, 3, 5), (0, -1)), ((0, 3), 1), ((3, 0), 0)]
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
            raise ShapeError(f"roll by {self.shift} needs to know the size of axis {axis} of {x.type}", operand=0)
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
        cases: list[tuple[Ints, int, int]] = [((7,), 2, 0), ((7,), -2, 0), ((7,), 9, 0), ((3, 5), 1, 1), ((3, 5), 0, 0), ((0, 3), 1, 0), ((3, 0), 1, 0)]
        return [Sample((Type(F, s),), {"shift": k, "axis": a}) for s, k, a in cases] + every((5,), shift=2)


@declare
class Swapaxes(View):
    """x with two axes exchanged."""

    mnemonic = "swapaxes"
    a: int = -1
    b: int = -2

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        perm = list(range(x.type.rank))
        a, b = axis_of(self.a, len(perm)), axis_of(self.b, len(perm))
        perm[a], perm[b] = b, a
        return build.transpose(x, perm)

    def evaluate(self, *arrays: Array) -> Array:
        return np.swapaxes(arrays[0], self.a, self.b)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((Type(F, (2, 3, 5)),), {"a": a, "b": b}) for a, b in ((0, 1), (-1, -2), (2, 0), (1, 1))] + every((3, 2))


@declare
class PadMode(View):
    """x with a border: `pads` elements (low, high) on each axis, filled as `mode` says.

    `constant` fills with `value`, `edge` repeats the last element, `reflect` mirrors without repeating it, `wrap`
    goes on from the other end.
    """

    mnemonic = "pad_mode"
    pads: tuple[tuple[int, int], ...] = ()
    mode: Literal["constant", "edge", "reflect", "wrap"] = "constant"
    value: float | int = 0

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if len(self.pads) != x.type.rank or any(p < 0 for pair in self.pads for p in pair):
            raise ShapeError(f"pads need a (low, high) pair of sizes for each axis of {x.type}", attribute="pads")
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
            raise ShapeError(f"{self.mode} padding needs to know the size of axis {axis} of {x}", operand=0)
        if size == 0 or (self.mode == "reflect" and max(low, high) >= size):
            raise ShapeError(f"{self.mode} padding of {max(low, high)} needs more than {size} elements along axis {axis}", attribute="pads")
        mode: Literal["edge", "reflect", "wrap"] = self.mode if self.mode != "constant" else "edge"
        return np.pad(np.arange(size), (low, high), mode=mode)

    def evaluate(self, *arrays: Array) -> Array:
        if self.mode == "constant":
            return np.pad(arrays[0], self.pads, constant_values=arrays[0].dtype.type(self.value))
        return np.pad(arrays[0], self.pads, mode=self.mode)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = [Sample((Type(F, (4, 5)),), {"pads": ((1, 2), (0, 3)), "mode": m}) for m in ("constant", "edge", "reflect", "wrap")]
        found += [Sample((Type(F, (2, 3, 4)),), {"pads": ((0, 0), (0, 0), (2, 2)), "mode": "reflect"}), Sample((Type(F, (0, 2)),), {"pads": ((1, 0), (1, 1)), "value": 2.5})]
        return found + every((3,), pads=((1, 1),), mode="edge")


@declare
class PixelShuffle(View):
    """Channels to space: (batch, channels * factor**2, h, w) becomes (batch, channels, h * factor, w * factor)."""

    mnemonic = "pixel_shuffle"
    factor: int = 2

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        r = self.factor
        if x.type.rank != 4 or r < 1 or not isinstance(x.shape[1], int) or x.shape[1] % (r * r):
            raise ShapeError(f"pixel_shuffle by {r} needs (batch, channels * {r * r}, height, width), got {x.type}", operand=0)
        n, c, h, w = x.shape
        apart = build.reshape(x, (n, c // (r * r), r, r, h, w))
        return build.reshape(build.transpose(apart, (0, 1, 4, 2, 5, 3)), (n, c // (r * r), h * r, w * r))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [((2, 8, 3, 5), 2), ((1, 9, 2, 2), 3), ((0, 4, 3, 5), 2), ((1, 3, 2, 2), 1)]
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
            raise ShapeError(f"pixel_unshuffle by {r} needs (batch, channels, height * {r}, width * {r}), got {x.type}", operand=0)
        n, c, h, w = x.shape
        apart = build.reshape(x, (n, c, h // r, r, w // r, r))
        return build.reshape(build.transpose(apart, (0, 1, 3, 5, 2, 4)), (n, c * r * r, h // r, w // r))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [((2, 2, 6, 10), 2), ((1, 1, 6, 6), 3), ((0, 4, 2, 4), 2)]
        return [Sample((Type(F, s),), {"factor": k}) for s, k in cases] + every((1, 1, 2, 4))
