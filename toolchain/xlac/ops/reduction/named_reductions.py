"""Reductions of one combination as users name them: sums, products, extremes, any and all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node
from xlac.ir.leading import widened_axes
from xlac.ir.op import Array, Sample, declare, family
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import ANY, NUMBERS, check_dtype
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

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        axes = build.axes_of(self.axis, node.inputs[0].type.rank)
        return [Node.of(replace(self, axis=widened_axes(axes)), *inputs)]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return build.reduce(x, self.combine, self.axis, self.keepdims)

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        axes = build.axes_of(self.axis, x.ndim)
        reduced = numeric.reduce(self.combine, x, axes)
        return np.expand_dims(reduced, axes) if self.keepdims else reduced

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return over(cls.accepts)


def over(
    accepts: frozenset[DType], empty: bool = True, draw: str = "normal", **attributes: Any
) -> list[Sample]:
    """Samples of a reduction."""
    main = DType.F32 if DType.F32 in accepts else DType.BOOL
    shapes: list[tuple[tuple[int, ...], Axis, bool]] = [
        ((), None, False), ((7,), None, False), ((3, 5), 0, False), ((3, 5), -1, True),
        ((2, 3, 5), (0, -1), False), ((2, 3, 5, 7), (2, 3), True), ((4999,), 0, False),
        ((3, 5), (), False),
    ]  # fmt: skip
    if empty:
        shapes += [((3, 0), 1, False), ((0, 3), 1, True)]
    samples = [
        Sample((Type(main, s),), {"axis": a, "keepdims": k} | attributes, (draw,))
        for s, a, k in shapes
    ]
    kept = draw if draw != "normal" else "small"
    return samples + [
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
    """A reduction of conditions; a number is true where it is not 0."""

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
