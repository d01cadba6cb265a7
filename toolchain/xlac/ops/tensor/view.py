"""Operations that move elements without computing: each maps an index of the result to one of an
operand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim, Shape, bounds, static, volume
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.leading import BATCH, SIZE
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.permutations import inverse
from xlac.ir.types import Type
from xlac.ops.checks import check_axes, check_lengths, dims, extent
from xlac.ops.tensor.regroup import regroup
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr

Ints = tuple[int, ...]


@declare
class Reshape(Elementwise):
    """The same elements in row-major order under another shape."""

    mnemonic = "reshape"
    creates = frozenset()
    leading = {"shape": SIZE}
    shape: Shape = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise ShapeError(f"{dims(self.shape)} has a negative extent", attribute="shape")
        if volume(self.shape) != x.size:
            raise ShapeError(
                f"cannot reshape {x} of {x.size} elements to {dims(self.shape)} of "
                f"{volume(self.shape)}",
                attribute="shape",
            )
        return x.with_shape(self.shape)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("reshape", ct, shape=node.inputs[0].shape)]

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0].reshape(static(self.shape))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        return x.read(regroup(at, result.shape, x.type.shape))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        pairs: list[tuple[Ints, Ints]] = [
            ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 2)), ((12,), (3, 4)), ((3, 4), (12,)),
            ((3, 4), (2, 6)), ((2, 3, 5), (6, 5)), ((2, 3, 5), (2, 15)), ((2, 1, 5), (2, 5)),
            ((7, 11), (11, 7)), ((4, 6), (2, 2, 3, 2)), ((2, 2, 3, 2), (8, 3)),
            ((4999,), (1, 4999, 1)), ((50, 100), (2, 25, 10, 10)),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, a),), {"shape": b}) for a, b in pairs]
        return samples + [Sample((Type(d, (3, 4)),), {"shape": (2, 6)}) for d in DType]


@declare
class Broadcast(Elementwise):
    """Repeats x to fill `shape`; axis i of x is axis `axes[i]` of the result, and an extent of 1
    stretches.
    """

    mnemonic = "broadcast"
    creates = frozenset()
    leading = {"shape": SIZE, "axes": BATCH}
    shape: Shape = ()
    axes: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, axes=self.axes)
        check_axes(self.axes, len(self.shape))
        for axis, size in zip(self.axes, x.shape, strict=True):
            if size not in (1, self.shape[axis]):
                raise ShapeError(
                    f"cannot broadcast {x} to {dims(self.shape)}: extent {size} meets "
                    f"{self.shape[axis]}",
                    operand=0,
                )
        return x.with_shape(self.shape)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        shape = node.inputs[0].shape
        kept = [
            axis for axis, size in zip(self.axes, shape, strict=True) if size == self.shape[axis]
        ]
        summed = tuple(axis for axis in range(len(self.shape)) if axis not in kept)
        total = apply("reduce", ct, axes=summed, combine="add") if summed else ct
        order = tuple(sorted(kept).index(axis) for axis in kept)
        if order != tuple(range(len(kept))):
            total = apply("transpose", total, perm=order)
        return [total if total.shape == shape else apply("reshape", total, shape=shape)]

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        order = np.argsort(self.axes, kind="stable")
        spread = [1] * len(self.shape)
        for axis, size in zip(self.axes, x.shape, strict=True):
            spread[axis] = size
        return np.broadcast_to(x.transpose(order).reshape(spread), static(self.shape))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        sizes = zip(self.axes, x.type.shape, strict=True)
        return x.read(tuple(build.index(0) if size == 1 else at[axis] for axis, size in sizes))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, Ints]] = [
            ((), (), ()), ((), (3, 5), ()), ((5,), (3, 5), (1,)), ((3,), (3, 5), (0,)),
            ((3, 1), (3, 5), (0, 1)), ((3, 5), (5, 2, 3), (2, 0)), ((1,), (0,), (0,)),
            ((0,), (3, 0), (1,)), ((1, 1), (2, 3, 5, 7), (1, 3)), ((7,), (700, 7), (1,)),
            ((4999,), (4999, 1), (0,)),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, x),), {"shape": s, "axes": a}) for x, s, a in cases]
        return samples + [
            Sample((Type(d, (3, 1)),), {"shape": (3, 5), "axes": (0, 1)}) for d in DType
        ]


@declare
class Transpose(Elementwise):
    """Reorders axes: axis i of the result is axis `perm[i]` of x."""

    mnemonic = "transpose"
    creates = frozenset()
    leading = {"perm": BATCH}
    perm: tuple[int, ...] = ()

    @property
    def inverse(self) -> Transpose:
        """The transpose that undoes it."""
        return Transpose(inverse(self.perm))

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, perm=self.perm)
        check_axes(self.perm, x.rank, "perm")
        return x.with_shape(tuple(x.shape[axis] for axis in self.perm))

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [Node.of(self.inverse, ct)]

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0].transpose(self.perm)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        return x.read(tuple(at[axis] for axis in inverse(self.perm)))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()), ((5,), (0,)), ((3, 5), (1, 0)), ((0, 5), (1, 0)), ((2, 3, 5), (2, 0, 1)),
            ((2, 3, 5), (1, 2, 0)), ((2, 3, 5, 7), (0, 2, 3, 1)), ((67, 71), (1, 0)),
            ((3, 1, 5), (2, 1, 0)),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),), {"perm": p}) for s, p in cases]
        return samples + [Sample((Type(d, (3, 7)),), {"perm": (1, 0)}) for d in DType]


@declare
class Slice(Elementwise):
    """Every `steps[a]`-th element of each axis from `starts[a]` up to, not including, `stops[a]`.

    With a negative step it counts down from the start and stops before `stops[a]`, which may be -1.
    """

    mnemonic = "slice"
    creates = frozenset()
    leading = {"starts": 0, "stops": SIZE, "steps": 1}
    starts: tuple[Dim, ...] = ()
    stops: tuple[Dim, ...] = ()
    steps: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, starts=self.starts, stops=self.stops, steps=self.steps)
        extents: list[Dim] = []
        for axis, (start, stop, step, size) in enumerate(
            zip(self.starts, self.stops, self.steps, x.shape, strict=True)
        ):
            if step == 0:
                raise ShapeError(f"the step of axis {axis} is 0", attribute="steps")
            first, last = (start, stop) if step > 0 else (stop + 1, start + 1)
            if bounds(first)[1] < 0 or bounds(last - first)[1] < 0 or bounds(last - size)[0] > 0:
                raise ShapeError(
                    f"slice {start}:{stop}:{step} of axis {axis} leaves {x}", attribute="starts"
                )
            extents.append(extent((last - first + abs(step) - 1) // abs(step)))
        return x.with_shape(tuple(extents))

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        low: list[Dim] = []
        high: list[Dim] = []
        backwards = [step < 0 for step in self.steps]
        for axis, (start, step) in enumerate(zip(self.starts, self.steps, strict=True)):
            count, size = ct.shape[axis], node.inputs[0].shape[axis]
            reach = extent(count - 1) * abs(step)
            first = start - reach if step < 0 else start
            covered = reach + 1 if count != 0 else 0
            low.append(first)
            high.append(size - first - covered)
        if any(backwards):  # the same elements from last to first
            flip = [
                (size - 1, -1, -1) if back else (0, size, 1)
                for size, back in zip(ct.shape, backwards, strict=True)
            ]
            starts, stops, steps = (tuple(each) for each in zip(*flip, strict=True))
            ct = apply("slice", ct, starts=starts, stops=stops, steps=steps)
        between = tuple(abs(step) - 1 for step in self.steps)
        zero = zeros(ct.type.with_shape(()))
        return [apply("pad", ct, zero, low=tuple(low), high=tuple(high), interior=between)]

    def evaluate(self, *arrays: Array) -> Array:
        cuts = []
        for start, stop, step in zip(
            static(self.starts), static(self.stops), self.steps, strict=True
        ):
            cuts.append(slice(max(0, start), None if stop < 0 <= start else max(0, stop), step))
        return arrays[0][tuple(cuts)]

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        return x.read(
            tuple(
                build.add(build.mul(i, k), s)
                for i, s, k in zip(at, self.starts, self.steps, strict=True)
            )
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, Ints, Ints]] = [
            ((), (), (), ()), ((7,), (2,), (5,), (1,)), ((7,), (0,), (7,), (2,)),
            ((7,), (6,), (-1,), (-1,)), ((7,), (5,), (0,), (-2,)), ((7,), (3,), (3,), (1,)),
            ((0,), (0,), (0,), (1,)), ((3, 5), (1, 0), (3, 5), (1, 3)),
            ((2, 3, 5), (0, 2, 1), (2, -1, 4), (1, -1, 2)), ((4999,), (1,), (4999,), (1,)),
            ((70, 71), (0, 1), (70, 70), (1, 1)),
            ((2, 3, 5, 7), (1, 0, 2, 3), (2, 3, 4, 7), (1, 1, 1, 1)),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, x),), {"starts": a, "stops": b, "steps": c})
            for x, a, b, c in cases
        ]
        return samples + [
            Sample((Type(d, (3, 7)),), {"starts": (0, 1), "stops": (3, 6), "steps": (2, 1)})
            for d in DType
        ]
