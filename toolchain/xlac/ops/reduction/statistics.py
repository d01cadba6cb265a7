"""Reductions as users name them: sums, means, variances, norms, extremes and where they are."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, volume
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, family, normal_axis
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import ANY, FLOATS, NUMBERS, check_dtype
from xlac.ops.scalar import native
from xlac.ops.tensor.dynamic import DimSize
from xlac_sdk.dtypes import DType

Axis = int | tuple[int, ...] | None


def reduced(x: Type, axis: Axis, keepdims: bool) -> tuple[Dim, ...]:
    """The shape after a reduction."""
    axes = build.axes_of(axis, x.rank)
    return tuple(1 if a in axes else n for a, n in enumerate(x.shape) if keepdims or a not in axes)


@family
class Over(Composite):
    """A reduction along `axis` (one, several, or all when absent); `keepdims` leaves axes of extent
    1.
    """

    accepts: ClassVar[frozenset[DType]] = NUMBERS
    combine: ClassVar[str]
    result: ClassVar[DType | None] = None
    axis: Axis = None
    keepdims: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, self.accepts)
        return Type(self.result or x.dtype, reduced(x, self.axis, self.keepdims))

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.reduce(x, self.combine, self.axis, self.keepdims)

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        axes = build.axes_of(self.axis, x.ndim)
        found = numeric.reduce(self.combine, x, axes)
        return np.expand_dims(found, axes) if self.keepdims else found

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return over(cls.accepts)


def over(
    accepts: frozenset[DType], empty: bool = True, draw: str = "normal", **attributes: Any
) -> list[Sample]:
    """Samples of a reduction."""
    main = DType.F32 if DType.F32 in accepts else DType.BOOL
    shapes: list[tuple[tuple[int, ...], Axis, bool]] = [
        ((), None, False), ((7,), None, False), ((3, 5), 0, False), ((3, 5), -1, True), ((2, 3, 5), (0, -1), False),
        ((2, 3, 5, 7), (2, 3), True), ((4999,), 0, False), ((3, 5), (), False),
    ]  # fmt: skip
    if empty:
        shapes += [((3, 0), 1, False), ((0, 3), 1, True)]
    found = [
        Sample((Type(main, s),), {"axis": a, "keepdims": k} | attributes, (draw,))
        for s, a, k in shapes
    ]
    kept = draw if draw != "normal" else "small"
    return found + [
        Sample((Type(d, (3, 9)),), {"axis": 1} | attributes, (kept,)) for d in DType if d in accepts
    ]


@declare
class Sum(Over):
    """The sum along `axis`; integers wrap."""

    mnemonic, combine = "sum", "add"


@declare
class Prod(Over):
    """The product along `axis`; integers wrap."""

    mnemonic, combine = "prod", "mul"

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return over(cls.accepts, draw="unit")


@declare
class ReduceMax(Over):
    """The largest element along `axis`; NaN when there is one, and the least value of the type when
    there is none.
    """

    mnemonic, combine = "reduce_max", "max"
    creates = frozenset({INFINITY})


@declare
class ReduceMin(Over):
    """The smallest element along `axis`; NaN when there is one, and the greatest value of the type
    when there is none.
    """

    mnemonic, combine = "reduce_min", "min"
    creates = frozenset({INFINITY})


class Truth(Over):
    accepts, result = ANY, DType.BOOL

    def expand(self, *inputs: Node) -> Node:
        return super().expand(build.cast(inputs[0], DType.BOOL))

    def evaluate(self, *arrays: Array) -> Array:
        return super().evaluate(arrays[0] != 0)


@declare
class Any_(Truth):
    """Whether any element along `axis` is true, or not 0."""

    mnemonic, combine = "any", "or"


@declare
class All(Truth):
    """Whether all elements along `axis` are true, or not 0."""

    mnemonic, combine = "all", "and"


class Float(Over):
    """A reduction of floats, in f32 for halves; integers and bool come as f32."""

    accepts = FLOATS

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        return tuple(build.floating(build.as_node(i)) for i in inputs)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.cast(self.wide(build.compute(x)), x.type.dtype)

    @abstractmethod
    def wide(self, x: Node) -> Node:
        """The result from x in its compute type."""

    def evaluate(self, *arrays: Array) -> Array:
        axes = build.axes_of(self.axis, arrays[0].ndim)
        with np.errstate(all="ignore"):
            found = np.asarray(self.meaning(numeric.widen(arrays[0]), axes))
        return numeric.narrow(found, arrays[0].dtype)

    @abstractmethod
    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        """The same in NumPy."""


def count(x: Node, axis: Axis) -> Dim:
    """How many elements one result is made of."""
    return volume(tuple(x.shape[a] for a in build.axes_of(axis, x.type.rank)))


def mean(x: Node, axis: Axis, keepdims: bool) -> Node:
    """The mean of floats. A symbolic number of elements is asked of the tensor when it runs."""
    total = build.reduce(x, "add", axis, keepdims)
    return build.div(total, number(x, axis))


def number(x: Node, axis: Axis) -> Node:
    """`count` as a scalar of x's element type."""
    size = count(x, axis)
    if isinstance(size, int):
        return build.constant(float(size), x.type.dtype)
    found: Node | None = None
    for a in build.axes_of(axis, x.type.rank):
        part = build.cast(Node.of(DimSize(a), x), x.type.dtype)
        found = part if found is None else build.mul(found, part)
    assert found is not None
    return found


@declare
class Mean(Float):
    """The mean along `axis`; NaN of nothing."""

    mnemonic = "mean"

    def wide(self, x: Node) -> Node:
        return mean(x, self.axis, self.keepdims)

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sum(x, axis=axes, keepdims=self.keepdims) / x.dtype.type(
            math.prod(x.shape[a] for a in axes)
        )


@declare
class Var(Float):
    """The variance along `axis`: squared distances from the mean over their number less
    `correction`.
    """

    mnemonic = "var"
    correction: int = 0

    def wide(self, x: Node) -> Node:
        gap = build.sub(x, mean(x, self.axis, True))
        squares = build.reduce(build.mul(gap, gap), "add", self.axis, self.keepdims)
        return build.div(
            squares, build.maximum(build.sub(number(x, self.axis), float(self.correction)), 0.0)
        )

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        size = math.prod(x.shape[a] for a in axes)
        gap = x - np.sum(x, axis=axes, keepdims=True) / x.dtype.type(size)
        return np.sum(gap * gap, axis=axes, keepdims=self.keepdims) / x.dtype.type(
            max(0, size - self.correction)
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            *super().samples(),
            Sample((Type(DType.F32, (3, 17)),), {"axis": 1, "correction": 1}),
        ]


@declare
class Std(Float):
    """The standard deviation along `axis`: the square root of `var`."""

    mnemonic = "std"
    correction: int = 0

    def wide(self, x: Node) -> Node:
        return build.sqrt(Var(self.axis, self.keepdims, self.correction).wide(x))

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sqrt(Var(self.axis, self.keepdims, self.correction).meaning(x, axes))


@declare
class Norm(Float):
    """The length along `axis`: `ord` 1 sums magnitudes, 2 is Euclid's, inf the largest magnitude."""

    mnemonic = "norm"
    ord: float = 2.0

    def infer(self, *types: Type) -> Type:
        if self.ord not in (1, 2, math.inf):
            raise ShapeError(f"norm of order {self.ord}; there are 1, 2 and inf", attribute="ord")
        return super().infer(*types)

    def wide(self, x: Node) -> Node:
        if self.ord == 2:
            return build.sqrt(build.reduce(build.mul(x, x), "add", self.axis, self.keepdims))
        size = Node.of(native.Abs(), x)
        found = build.reduce(size, "add" if self.ord == 1 else "max", self.axis, self.keepdims)
        return found if self.ord == 1 else build.maximum(found, 0.0)

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        if self.ord == 2:
            return np.sqrt(np.sum(x * x, axis=axes, keepdims=self.keepdims))
        if self.ord == 1:
            return np.sum(np.abs(x), axis=axes, keepdims=self.keepdims)
        return np.max(np.abs(x), axis=axes, keepdims=self.keepdims, initial=0)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        more = [Sample((Type(DType.F32, (3, 17)),), {"axis": 1, "ord": o}) for o in (1.0, math.inf)]
        return [*super().samples(), *more]


@declare
class Logsumexp(Float):
    """The logarithm of the sum of exponentials along `axis`, without overflow."""

    mnemonic = "logsumexp"

    def wide(self, x: Node) -> Node:
        axes = build.axes_of(self.axis, x.type.rank)
        top = finite(build.reduce(x, "max", axes, True))
        total = build.reduce(build.exp(build.sub(x, top)), "add", axes, True)
        found = build.add(build.log(total), top)
        return found if self.keepdims else build.reshape(found, reduced(x.type, axes, False))

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, x.dtype.type(0))
        found = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
        return found if self.keepdims else np.squeeze(found, axes)


def finite(x: Node) -> Node:
    """x, with 0 in place of infinities and NaN: what may be subtracted before `exp` without making
    a NaN.
    """
    return build.select(build.compare(Node.of(native.Abs(), x), "lt", math.inf), x, 0.0)


@family
class Extreme(Composite):
    """The position along `axis` of an extreme; the first of equals, and a NaN counts as the
    extreme.
    """

    largest: ClassVar[bool]
    axis: int | None = None
    keepdims: bool = False
    dtype: DType = DType.I64

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS)
        axis = None if self.axis is None else normal_axis(self.axis, x.rank)
        size = x.size if axis is None else x.shape[axis]
        if size == 0:
            raise ShapeError(f"{self.mnemonic} of no elements: {x}", operand=0)
        if not self.dtype.is_integer:
            raise ShapeError(f"positions are integers, not {self.dtype}", attribute="dtype")
        return Type(self.dtype, reduced(x, axis, self.keepdims))

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axis = 0 if self.axis is None else normal_axis(self.axis, x.type.rank)
        flat = build.reshape(x, (-1,)) if self.axis is None else x
        top = build.back(
            build.reduce(flat, "max" if self.largest else "min", axis), flat.shape, (axis,)
        )
        here = build.compare(flat, "eq", top)
        if x.type.dtype.is_float:
            here = build.apply1("or", here, build.compare(flat, "ne", flat))
        most = int(np.iinfo(self.dtype.numpy).max)
        place = build.select(here, build.iota(flat.shape, axis, self.dtype), most)
        found = build.reduce(place, "min", axis)
        if not self.keepdims:
            return found
        return build.reshape(found, reduced(x.type, self.axis, True))

    def evaluate(self, *arrays: Array) -> Array:
        x = numeric.widen(arrays[0])
        found = (np.argmax if self.largest else np.argmin)(
            x, axis=self.axis, keepdims=self.keepdims
        )
        return np.asarray(found).astype(self.dtype.numpy)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[tuple[int, ...], int | None, bool]] = [
            ((7,), 0, False), ((7,), None, False), ((3, 5), 1, False), ((3, 5), 0, True), ((3, 5), None, True),
            ((2, 3, 5), -2, False), ((0, 3), 1, False), ((4999,), 0, False), ((3, 1), 1, False),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, s),), {"axis": a, "keepdims": k}) for s, a, k in shapes]
        found += [
            Sample((Type(d, (3, 9)),), {"axis": 1}, ("small",)) for d in DType if d in NUMBERS
        ]
        return [
            *found,
            Sample((Type(DType.F32, (5, 13)),), {"axis": 1, "dtype": DType.I32}, ("special",)),
        ]


@declare
class Argmax(Extreme):
    """The position of the largest element along `axis` (of all, row-major, when absent); the first
    of equals.
    """

    mnemonic, largest = "argmax", True


@declare
class Argmin(Extreme):
    """The position of the smallest element along `axis` (of all, row-major, when absent); the first
    of equals.
    """

    mnemonic, largest = "argmin", False
