"""Rearranging tensors as users write it: splitting, stacking, other shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import check_same, dims, several, undivided
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
F = DType.F32


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the start. Raises ShapeError."""
    return normal_axis(axis, rank)


def every(shape: Ints, /, **attributes: object) -> list[Sample]:
    """The case for every element type."""
    return [Sample((Type(d, shape),), attributes) for d in DType]


class View(Composite):
    """One tensor, rearranged: the shape is that of the expansion."""

    creates = frozenset()

    def infer(self, *types: Type) -> Types:
        expanded = self.expand(
            *(build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types))
        )
        return several([x.type for x in expanded]) if isinstance(expanded, tuple) else expanded.type


PARTS = 1 << 16
"""Parts that one operation may split a value into."""


@declare
class Split(View):
    """Consecutive parts of x along `axis`: `parts` equal ones, or of the given `sizes`. Several
    results.
    """

    mnemonic = "split"
    parts: int = 0
    axis: int = 0
    sizes: tuple[Dim, ...] = ()

    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        (x,) = inputs
        axis = axis_of(self.axis, x.type.rank)
        size, parts = x.shape[axis], self.sizes
        if not parts:
            if self.parts > PARTS:
                raise ShapeError(
                    f"{self.parts:,} parts; at most {PARTS:,} are supported", attribute="parts"
                )
            if self.parts < 1 or size % self.parts:
                why = undivided(size, f"slices of axis {axis}", f"{self.parts} parts")
                raise ShapeError(f"{x.type}: {why}", attribute="parts")
            parts = (size // self.parts,) * self.parts
        total: Dim = 0
        pieces = []
        for part in parts:
            pieces.append(build.cut(x, axis, total, total + part))
            total = total + part
        if total != size:
            raise ShapeError(
                f"parts {dims(parts)} do not make up axis {axis} of {x.type}",
                attribute="sizes" if self.sizes else "parts",
            )
        return tuple(pieces) if len(pieces) > 1 else pieces[0]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [
            ((6,), {"parts": 2}), ((6,), {"sizes": (1, 2, 3)}), ((3, 6), {"parts": 3, "axis": -1}),
            ((0, 6), {"parts": 2, "axis": 1}), ((4, 5), {"sizes": (0, 4), "axis": 0}),
            ((3, 5), {"parts": 1}), ((2, 6, 5), {"parts": 2, "axis": 1}),
        ]  # fmt: skip
        return [Sample((Type(F, s),), g) for s, g in cases] + every((2, 6), parts=2, axis=1)


@declare
class Stack(View):
    """Tensors of one type as the entries of a new axis."""

    mnemonic = "stack"
    operands = ("*xs",)
    axis: int = 0

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Numbers, and lists of them, take the type of the tensors."""
        dtype = build.promoted(inputs) if inputs else None
        return tuple(i if isinstance(i, Node) else build.as_node(i, dtype) for i in inputs)

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
        cases: list[tuple[Ints, int, int]] = [
            ((), 2, 0),
            ((3, 5), 3, 0),
            ((3, 5), 2, 1),
            ((3, 5), 2, -1),
            ((0, 5), 2, 0),
            ((3, 5), 1, 2),
        ]
        samples = [Sample((Type(F, s),) * n, {"axis": a}) for s, n, a in cases]
        return samples + [Sample((Type(d, (3,)),) * 2, {"axis": 1}) for d in DType]


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
                raise ShapeError(
                    f"axis {axis} of {x.type} has {x.shape[axis]} elements, not 1", attribute="axis"
                )
        return build.reshape(x, [size for a, size in enumerate(x.shape) if a not in axes])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [
            ((1, 3, 1), None),
            ((1, 3, 1), 0),
            ((1, 3, 1), -1),
            ((1, 3, 1), (0, 2)),
            ((), None),
            ((0, 1), 1),
        ]
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
        return build.reshape(
            x, [1 if a in axes else next(rest) for a in range(x.type.rank + len(axes))]
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, object]] = [
            ((), 0),
            ((3,), 0),
            ((3,), -1),
            ((3, 5), (0, 2)),
            ((0, 3), 1),
        ]
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
        return build.reshape(
            x, (*x.shape[:first], volume(x.shape[first : last + 1]), *x.shape[last + 1 :])
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [
            ((), {}),
            ((3,), {}),
            ((2, 3, 5), {}),
            ((2, 3, 5), {"axis": 1}),
            ((2, 3, 5, 7), {"axis": 1, "end": 2}),
            ((0, 3, 5), {"axis": 1}),
        ]
        return [Sample((Type(F, s),), g) for s, g in cases] + every((2, 3))


@declare
class Expand(View):
    """x repeated to fill `shape` as NumPy broadcasts; an extent of -1 stays as it is."""

    mnemonic = "expand"
    shape: Shape = ()

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        before = len(self.shape) - x.type.rank
        wanted = tuple(
            x.shape[a - before] if size == -1 and a >= before else size
            for a, size in enumerate(self.shape)
        )
        return build.broadcast_to(x, build.broadcast_shapes([x.shape, wanted]))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), (3,)),
            ((5,), (3, 5)),
            ((3, 1), (3, 5)),
            ((3, 1), (-1, 5)),
            ((1,), (0,)),
            ((3, 1), (2, 3, 5)),
            ((3, 5), (1, 1)),
        ]
        return [Sample((Type(F, s),), {"shape": t}) for s, t in cases] + every((3, 1), shape=(3, 5))


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
        return [
            Sample((Type(F, (2, 3, 5)),), {"a": a, "b": b})
            for a, b in ((0, 1), (-1, -2), (2, 0), (1, 1))
        ] + every((3, 2))
