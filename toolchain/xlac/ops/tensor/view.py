"""Operations that move elements without computing: each maps an index of the result to one of an
operand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim, Shape, bounds, size_hint, static, volume
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import check_axes, check_lengths, check_scalar, dims, extent
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.polynomial import is_below
from xlac_sdk.kernel_ir.primitives import Primitive

Ints = tuple[int, ...]


@declare
class Reshape(Elementwise):
    """The same elements in row-major order under another shape."""

    mnemonic = "reshape"
    creates = frozenset()
    shape: Shape = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise ShapeError(f"{dims(self.shape)} has a negative extent", attribute="shape")
        if volume(self.shape) != x.size:
            raise ShapeError(
                f"cannot reshape {x} of {x.size} elements to {dims(self.shape)} of {volume(self.shape)}",
                attribute="shape",
            )
        return x.with_shape(self.shape)

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0].reshape(static(self.shape))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        return x.read(regroup(at, result.shape, x.type.shape))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        pairs: list[tuple[Ints, Ints]] = [
            ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 2)), ((12,), (3, 4)), ((3, 4), (12,)), ((3, 4), (2, 6)),
            ((2, 3, 5), (6, 5)), ((2, 3, 5), (2, 15)), ((2, 1, 5), (2, 5)), ((7, 11), (11, 7)),
            ((4, 6), (2, 2, 3, 2)), ((2, 2, 3, 2), (8, 3)), ((4999,), (1, 4999, 1)), ((50, 100), (2, 25, 10, 10)),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, a),), {"shape": b}) for a, b in pairs]
        return found + [Sample((Type(d, (3, 4)),), {"shape": (2, 6)}) for d in DType]


def regroup(at: Index, new: Shape, old: Shape) -> Index:
    """The index in shape `old` of the element at `at` in shape `new`, both row-major.

    Runs of axes with equal products are mapped apart, so that axes which match keep their own
    counter and only those that were split or merged need divisions.
    """
    found: list[Expr] = []
    i = j = 0
    while i < len(new) or j < len(old):
        first, second = i, j
        left: Dim = 1
        right: Dim = 1
        # grow the smaller side until the products meet; unit axes join whatever is open
        while True:
            if (
                left == right
                and (i > first or j > second)
                and (left not in (0, 1) or (i == len(new) and j == len(old)))
            ):
                break
            if (
                left == right
                and i < len(new)
                and j < len(old)
                and first == i
                and second == j
                and new[i] == old[j]
            ):
                i, j, left, right = i + 1, j + 1, left * new[i], right * old[j]
                break
            if i < len(new) and (size_hint(left) <= size_hint(right) or j == len(old)):
                left, i = left * new[i], i + 1
            elif j < len(old):
                right, j = right * old[j], j + 1
            else:
                break
        found += _split(_linear(at[first:i], new[first:i]), old[second:j])
    return tuple(found)


def _linear(at: Sequence[Expr], shape: Shape) -> Expr:
    position: Expr = build.index(0)
    for counter, size in zip(at, shape, strict=True):
        position = build.add(build.mul(position, size), counter) if size != 1 else position
    return position


def _split(position: Expr, shape: Shape) -> list[Expr]:
    counters: list[Expr] = []
    kept = [a for a, size in enumerate(shape) if size not in (0, 1)]
    for axis in reversed(range(len(shape))):
        if shape[axis] in (0, 1):
            counters.append(build.index(0))
        elif axis == kept[0]:
            counters.append(position)
        else:
            counters.append(build.mod(position, shape[axis]))
            position = build.div(position, shape[axis])
    return counters[::-1]


@declare
class Broadcast(Elementwise):
    """Repeats x to fill `shape`; axis i of x is axis `axes[i]` of the result, and an extent of 1
    stretches.
    """

    mnemonic = "broadcast"
    creates = frozenset()
    shape: Shape = ()
    axes: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, axes=self.axes)
        check_axes(self.axes, len(self.shape))
        for axis, size in zip(self.axes, x.shape, strict=True):
            if size not in (1, self.shape[axis]):
                raise ShapeError(
                    f"cannot broadcast {x} to {dims(self.shape)}: extent {size} meets {self.shape[axis]}",
                    operand=0,
                )
        return x.with_shape(self.shape)

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
            ((), (), ()), ((), (3, 5), ()), ((5,), (3, 5), (1,)), ((3,), (3, 5), (0,)), ((3, 1), (3, 5), (0, 1)),
            ((3, 5), (5, 2, 3), (2, 0)), ((1,), (0,), (0,)), ((0,), (3, 0), (1,)), ((1, 1), (2, 3, 5, 7), (1, 3)),
            ((7,), (700, 7), (1,)), ((4999,), (4999, 1), (0,)),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, x),), {"shape": s, "axes": a}) for x, s, a in cases]
        return found + [
            Sample((Type(d, (3, 1)),), {"shape": (3, 5), "axes": (0, 1)}) for d in DType
        ]


@declare
class Transpose(Elementwise):
    """Reorders axes: axis i of the result is axis `perm[i]` of x."""

    mnemonic = "transpose"
    creates = frozenset()
    perm: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, perm=self.perm)
        check_axes(self.perm, x.rank, "perm")
        return x.with_shape(tuple(x.shape[axis] for axis in self.perm))

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0].transpose(self.perm)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        return x.read(tuple(at[self.perm.index(axis)] for axis in range(len(at))))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()), ((5,), (0,)), ((3, 5), (1, 0)), ((0, 5), (1, 0)), ((2, 3, 5), (2, 0, 1)), ((2, 3, 5), (1, 2, 0)),
            ((2, 3, 5, 7), (0, 2, 3, 1)), ((67, 71), (1, 0)), ((3, 1, 5), (2, 1, 0)),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, s),), {"perm": p}) for s, p in cases]
        return found + [Sample((Type(d, (3, 7)),), {"perm": (1, 0)}) for d in DType]


@declare
class Slice(Elementwise):
    """Every `steps[a]`-th element of each axis from `starts[a]` up to, not including, `stops[a]`.

    With a negative step it counts down from the start and stops before `stops[a]`, which may be -1.
    """

    mnemonic = "slice"
    creates = frozenset()
    starts: tuple[Dim, ...] = ()
    stops: tuple[Dim, ...] = ()
    steps: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_lengths(self.mnemonic, x.rank, starts=self.starts, stops=self.stops, steps=self.steps)
        found: list[Dim] = []
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
            found.append(extent((last - first + abs(step) - 1) // abs(step)))
        return x.with_shape(tuple(found))

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
            ((), (), (), ()), ((7,), (2,), (5,), (1,)), ((7,), (0,), (7,), (2,)), ((7,), (6,), (-1,), (-1,)),
            ((7,), (5,), (0,), (-2,)), ((7,), (3,), (3,), (1,)), ((0,), (0,), (0,), (1,)),
            ((3, 5), (1, 0), (3, 5), (1, 3)), ((2, 3, 5), (0, 2, 1), (2, -1, 4), (1, -1, 2)),
            ((4999,), (1,), (4999,), (1,)), ((70, 71), (0, 1), (70, 70), (1, 1)), ((2, 3, 5, 7), (1, 0, 2, 3), (2, 3, 4, 7), (1, 1, 1, 1)),
        ]  # fmt: skip
        found = [
            Sample((Type(DType.F32, x),), {"starts": a, "stops": b, "steps": c})
            for x, a, b, c in cases
        ]
        return found + [
            Sample((Type(d, (3, 7)),), {"starts": (0, 1), "stops": (3, 6), "steps": (2, 1)})
            for d in DType
        ]


@declare
class Pad(Elementwise):
    """Puts `low[a]` copies of a scalar before each axis, `high[a]` after it and `interior[a]`
    between neighbours.

    A negative low or high removes elements instead, after the interior padding.
    """

    mnemonic = "pad"
    creates = frozenset()
    operands = ("x", "value")
    low: tuple[Dim, ...] = ()
    high: tuple[Dim, ...] = ()
    interior: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        x, value = types
        check_scalar(self.mnemonic, value, 1)
        if value.dtype is not x.dtype:
            raise ShapeError(f"cannot pad {x} with a value of {value.dtype}", operand=1)
        check_lengths(self.mnemonic, x.rank, low=self.low, high=self.high, interior=self.interior)
        found = []
        for axis, (size, low, high, between) in enumerate(
            zip(x.shape, self.low, self.high, self.interior, strict=True)
        ):
            if between < 0:
                raise ShapeError(
                    f"the interior padding of axis {axis} is negative", attribute="interior"
                )
            inner = size + extent(size - 1) * between
            if bounds(inner + low + high)[1] < 0:
                raise ShapeError(
                    f"padding {low} and {high} crops more than axis {axis} of {x} holds",
                    attribute="low",
                )
            found.append(inner + low + high)
        return x.with_shape(tuple(found))

    def evaluate(self, *arrays: Array) -> Array:
        x, value = arrays
        inner = tuple(n + max(0, n - 1) * k for n, k in zip(x.shape, self.interior, strict=True))
        spread = np.full(inner, value, x.dtype)
        spread[tuple(slice(None, None, k + 1) for k in self.interior)] = x
        low, high = static(self.low), static(self.high)
        crop = tuple(
            slice(max(0, -a), n - max(0, -b)) for n, a, b in zip(inner, low, high, strict=True)
        )
        kept = spread[crop]
        shape = tuple(n + a + b for n, a, b in zip(inner, low, high, strict=True))
        result = np.full(shape, value, x.dtype)
        if all(size > 0 for size in kept.shape):
            result[
                tuple(slice(max(0, a), max(0, a) + n) for a, n in zip(low, kept.shape, strict=True))
            ] = kept
        return result

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, value = inputs
        filler = build.cast(value.read(()), result.dtype.compute)
        if volume(x.type.shape) == 0:
            return filler
        inside: Expr | None = None
        where = []
        for i, size, before, between in zip(at, x.type.shape, self.low, self.interior, strict=True):
            position = build.sub(i, before)
            least, most = build.bounds(position)
            last = (size - 1) * (between + 1)
            if least is None or least < 0:
                inside = both(inside, build.apply(Primitive.LE, build.index(0), position))
                position = build.apply(Primitive.MAX, position, build.index(0))
            if exceeds(position, most, last):
                inside = both(inside, build.apply(Primitive.LE, position, build.lift(last)))
                position = build.apply(Primitive.MIN, position, build.lift(last))
            if between:
                inside = both(
                    inside,
                    build.apply(Primitive.EQ, build.mod(position, between + 1), build.index(0)),
                )
                position = build.div(position, between + 1)
            where.append(position)
        element = build.cast(
            x.read(tuple(where), inside if may_be_empty(x.type) else None), result.dtype.compute
        )
        return element if inside is None else build.select(inside, element, filler)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, Ints, Ints]] = [
            ((), (), (), ()), ((5,), (2,), (3,), (0,)), ((5,), (0,), (0,), (2,)), ((5,), (-1,), (-2,), (0,)),
            ((5,), (-1,), (4,), (1,)), ((0,), (2,), (1,), (0,)), ((0, 3), (0, 1), (0, 1), (0, 0)),
            ((3, 5), (1, 0), (0, 2), (0, 1)), ((2, 3, 5), (0, 1, 2), (0, 1, 2), (0, 0, 0)), ((1, 2, 5, 5), (0, 0, 1, 1), (0, 0, 1, 1), (0,) * 4),
            ((4990,), (4,), (5,), (0,)), ((5,), (-4,), (-1,), (0,)),
        ]  # fmt: skip
        found = [
            Sample((Type(DType.F32, x), Type(DType.F32)), {"low": a, "high": b, "interior": c})
            for x, a, b, c in cases
        ]
        shape = {"low": (1, 0), "high": (0, 2), "interior": (0, 0)}
        return found + [Sample((Type(d, (3, 5)), Type(d)), shape) for d in DType]


def both(a: Expr | None, b: Expr) -> Expr:
    return b if a is None else build.apply(Primitive.AND, a, b)


@declare
class Concat(Elementwise):
    """Tensors one after another along `axis`."""

    mnemonic = "concat"
    creates = frozenset()
    operands = ("*xs",)
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        if not types:
            raise ShapeError("concat needs at least one operand")
        first = types[0]
        check_axes((self.axis,), first.rank, "axis")
        total: Dim = 0
        for number, x in enumerate(types):
            if x.dtype is not first.dtype:
                raise ShapeError(
                    f"concat needs one element type, got {first} and {x}", operand=number
                )
            same = [a for a in range(first.rank) if a != self.axis]
            if x.rank != first.rank or any(x.shape[a] != first.shape[a] for a in same):
                raise ShapeError(
                    f"concat along axis {self.axis} needs all other extents equal, got {first} and {x}",
                    operand=number,
                )
            total = total + x.shape[self.axis]
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def evaluate(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        position = at[self.axis]
        start: Dim = 0
        pieces = []  # (first index, value)
        for x in inputs:
            size = x.type.shape[self.axis]
            if size == 0:
                continue
            local = clamp(build.sub(position, start), size - 1)
            here: Expr | None = None
            if may_be_empty(x.type):
                here = build.apply(Primitive.LE, build.lift(start), position)
                here = both(here, build.apply(Primitive.LT, position, build.lift(start + size)))
            read = x.read((*at[: self.axis], local, *at[self.axis + 1 :]), here)
            pieces.append((start, build.cast(read, result.dtype.compute)))
            start = start + size
        if not pieces:
            return Const(0.0 if result.dtype.is_float else 0, result.dtype.compute)
        value = pieces[0][1]
        for start, later in pieces[1:]:
            value = build.select(
                build.apply(Primitive.LT, position, build.lift(start)), value, later
            )
        return value

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[tuple[Ints, ...], int]] = [
            (((5,),), 0), (((2,), (3,)), 0), (((0,), (3,), (0,)), 0), (((0,), (0,)), 0), (((3, 2), (3, 5)), 1),
            (((1, 5), (4, 5), (2, 5)), 0), (((2, 3, 5), (2, 1, 5)), 1), (((2, 1, 3, 5),) * 3, 3), (((1, 4990), (1, 9)), 1),
        ]  # fmt: skip
        found = [
            Sample(tuple(Type(DType.F32, s) for s in shapes), {"axis": axis})
            for shapes, axis in cases
        ]
        return found + [Sample((Type(d, (3, 5)), Type(d, (3, 2))), {"axis": 1}) for d in DType]


def clamp(position: Expr, last: Dim) -> Expr:
    """An index moved into 0..last, written only as far as its bounds do not show it already."""
    least, most = build.bounds(position)
    if least is None or least < 0:
        position = build.apply(Primitive.MAX, position, build.index(0))
    if exceeds(position, most, last):
        position = build.apply(Primitive.MIN, position, build.lift(last))
    return position


def exceeds(position: Expr, most: int | None, last: Dim) -> bool:
    """Whether an index of at most `most` may be beyond `last`."""
    if isinstance(last, int):
        return most is None or most > last
    return position.lanes > 1 or not is_below(position, build.lift(last + 1))


def may_be_empty(x: Type) -> bool:
    """Whether a value whose sizes are open may have no elements."""
    return not isinstance(x.size, int) and bounds(x.size)[0] <= 0
