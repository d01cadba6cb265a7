"""Statistics of floats: means, variances, norms, logarithms of sums of exponentials."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import FLOATS
from xlac.ops.reduction.named_reductions import Axis, Over, reduced
from xlac.ops.scalar import native
from xlac.ops.tensor.dynamic import DimSize
from xlac_sdk.dtypes import DType


class Float(Over):
    """A reduction of floats, in f32 for halves; integers and bool come as f32."""

    accepts = FLOATS

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Operands as nodes; integers become floats."""
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
            value = np.asarray(self.meaning(numeric.widen(arrays[0]), axes))
        return numeric.narrow(value, arrays[0].dtype)

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
    product: Node | None = None
    for a in build.axes_of(axis, x.type.rank):
        part = build.cast(Node.of(DimSize(a), x), x.type.dtype)
        product = part if product is None else build.mul(product, part)
    assert product is not None
    return product


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


@family
class Deviation(Float):
    """A statistic of squared distances from the mean over their number less `correction`."""

    correction: int = 0

    def variance_node(self, x: Node) -> Node:
        """The variance."""
        gap = build.sub(x, mean(x, self.axis, True))
        total = build.reduce(build.mul(gap, gap), "add", self.axis, self.keepdims)
        return build.div(
            total, build.maximum(build.sub(number(x, self.axis), float(self.correction)), 0.0)
        )

    def variance(self, x: Array, axes: tuple[int, ...]) -> Any:
        """The same in NumPy."""
        size = math.prod(x.shape[a] for a in axes)
        gap = x - np.sum(x, axis=axes, keepdims=True) / x.dtype.type(size)
        return np.sum(gap * gap, axis=axes, keepdims=self.keepdims) / x.dtype.type(
            max(0, size - self.correction)
        )


@declare
class Var(Deviation):
    """The variance along `axis`: squared distances from the mean over their number less
    `correction`.
    """

    mnemonic = "var"

    def wide(self, x: Node) -> Node:
        return self.variance_node(x)

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        return self.variance(x, axes)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            *super().samples(),
            Sample((Type(DType.F32, (3, 17)),), {"axis": 1, "correction": 1}),
        ]


@declare
class Std(Deviation):
    """The standard deviation along `axis`: the square root of `var`."""

    mnemonic = "std"

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """The mean of the changes, weighted by the distance from the mean; 0 where all are equal,
        as PyTorch has it.
        """
        (x,), (t,) = node.inputs, tangents
        assert t is not None
        wide = build.compute(x)
        gap = build.sub(wide, mean(wide, self.axis, True))
        total = build.reduce(build.mul(build.compute(t), gap), "add", self.axis, self.keepdims)
        less = build.maximum(build.sub(number(wide, self.axis), float(self.correction)), 0.0)
        return [build.cast(over_length(total, build.compute(node), less), node.type.dtype)]

    def wide(self, x: Node) -> Node:
        return build.sqrt(self.variance_node(x))

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        return np.sqrt(self.variance(x, axes))


@declare
class Norm(Float):
    """The length along `axis`: `ord` 1 sums magnitudes, 2 is Euclid's, inf the largest of them."""

    mnemonic = "norm"
    ord: float = 2.0

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Of Euclid's: along the direction of x; 0 where x is 0, as PyTorch has it."""
        (x,), (t,) = node.inputs, tangents
        if self.ord != 2:
            return None
        assert t is not None
        product = build.mul(build.compute(t), build.compute(x))
        total = build.reduce(product, "add", self.axis, self.keepdims)
        return [build.cast(over_length(total, build.compute(node)), node.type.dtype)]

    def infer(self, *types: Type) -> Type:
        if self.ord not in (1, 2, math.inf):
            raise ShapeError(f"norm of order {self.ord}; there are 1, 2 and inf", attribute="ord")
        return super().infer(*types)

    def wide(self, x: Node) -> Node:
        if self.ord == 2:
            return build.sqrt(build.reduce(build.mul(x, x), "add", self.axis, self.keepdims))
        size = Node.of(native.Abs(), x)
        norm = build.reduce(size, "add" if self.ord == 1 else "max", self.axis, self.keepdims)
        return norm if self.ord == 1 else build.maximum(norm, 0.0)

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

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """The mean of the changes, weighted by the exponentials; NaN where infinities or NaN leave
        no weights.
        """
        (x,), (t,) = node.inputs, tangents
        assert t is not None
        wide, axes = build.compute(x), build.axes_of(self.axis, x.type.rank)
        top = (
            build.restore(build.compute(node), x.shape, axes)
            if axes and not self.keepdims
            else build.compute(node)
        )
        share = build.exp(build.sub(wide, top))
        change = build.reduce(build.mul(build.compute(t), share), "add", axes, self.keepdims)
        return [build.cast(change, node.type.dtype)]

    def wide(self, x: Node) -> Node:
        axes = build.axes_of(self.axis, x.type.rank)
        top = finite(build.reduce(x, "max", axes, True))
        total = build.reduce(build.exp(build.sub(x, top)), "add", axes, True)
        total_log = build.add(build.log(total), top)
        return (
            total_log if self.keepdims else build.reshape(total_log, reduced(x.type, axes, False))
        )

    def meaning(self, x: Array, axes: tuple[int, ...]) -> Any:
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, x.dtype.type(0))
        logs = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
        return logs if self.keepdims else np.squeeze(logs, axes)


def over_length(total: Node, length: Node, times: Node | None = None) -> Node:
    """total / (times * length); a constant 0 where the length is, so that the second derivative is
    0 as well.
    """
    flat = build.compare(length, "eq", 0.0)
    safe = build.select(flat, 1.0, length)
    return build.select(
        flat, 0.0, build.div(total, safe if times is None else build.mul(times, safe))
    )


def finite(x: Node) -> Node:
    """x, with 0 in place of infinities and NaN: what may be subtracted before `exp` without making
    a NaN.
    """
    return build.select(build.compare(Node.of(native.Abs(), x), "lt", math.inf), x, 0.0)
