"""Pooling to a given size: all of a channel (global), or any number of windows (adaptive)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node
from xlac.ir.leading import folded
from xlac.ir.op import Array, Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_rank, check_table
from xlac.ops.nn.padding import Sizes, sizes
from xlac.ops.nn.pooling import Ints
from xlac.ops.reduction import named_reductions, statistics
from xlac_sdk.dtypes import DType


@family
class Global(Composite):
    """All spatial axes at once."""

    accepts: ClassVar[frozenset[DType]]
    keepdims: bool = True

    def spatial(self, x: Type) -> Ints:
        """The axes that are pooled. Raises ShapeError where there is none."""
        if x.rank < 3:
            raise ShapeError(
                f"{self.mnemonic} needs batch, channels and spatial axes, got {x}", operand=0
            )
        return tuple(range(2, x.rank))

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return folded(node, inputs, mapped, size)

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, self.accepts)
        return x.with_shape(named_reductions.reduced(x, self.spatial(x), self.keepdims))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [(2, 3, 7), (2, 3, 5, 7), (1, 2, 3, 4, 5), (0, 3, 5, 7), (1, 64, 7, 7)]
        samples = [Sample((Type(DType.F32, s),), {}) for s in shapes] + [
            Sample((Type(DType.F32, (2, 3, 5)),), {"keepdims": False})
        ]
        return samples + [
            Sample((Type(d, (2, 3, 5)),), {}, ("small",)) for d in DType if d in cls.accepts
        ]


@declare
class GlobalAvgPool(Global):
    """The mean over all spatial axes, which stay with extent 1 unless `keepdims` is false."""

    mnemonic, accepts = "global_avg_pool", FLOATS

    def expand(self, *inputs: Node) -> Node:
        return statistics.Mean(self.spatial(inputs[0].type), self.keepdims).expand(*inputs)


@declare
class GlobalMaxPool(Global):
    """The largest element over all spatial axes, which stay with extent 1 unless `keepdims` is
    false.
    """

    mnemonic, accepts = "global_max_pool", NUMBERS
    creates = frozenset({INFINITY})

    def expand(self, *inputs: Node) -> Node:
        return build.reduce(inputs[0], "max", self.spatial(inputs[0].type), self.keepdims)


@family
class Adaptive(Composite):
    """Windows chosen so that the result has `size`: window i of n elements covers floor(i n / size)
    to ceil((i+1) n / size).
    """

    rank: ClassVar[int]
    size: Sizes = 1

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return folded(node, inputs, mapped, size)

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, FLOATS)
        check_rank(self.mnemonic, x, self.rank + 2)
        for n in x.shape[2:]:
            if not isinstance(n, int):
                raise ShapeError(f"{self.mnemonic} needs known sizes, got {x}", operand=0)
            if n == 0:
                raise ShapeError(f"{self.mnemonic} of no elements: {x}", operand=0)
        extents = sizes("size", self.size, self.rank)
        for n, size in zip(x.shape[2:], extents, strict=True):
            if isinstance(n, int) and n % size:
                check_table(self.mnemonic, n * size, x)
        return x.with_shape((*x.shape[:2], *extents))

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        pooled = build.compute(x)
        for axis, size in enumerate(sizes("size", self.size, self.rank), 2):
            n = pooled.shape[axis]
            assert isinstance(n, int)
            if n % size == 0:
                split = build.reshape(
                    pooled, (*pooled.shape[:axis], size, n // size, *pooled.shape[axis + 1 :])
                )
                pooled = statistics.mean(split, axis + 1, False)
                continue
            matrix = build.constant(means(n, size), pooled.type.dtype)
            rank = pooled.type.rank
            mixed = build.dot(pooled, matrix, ((axis,), (0,)))  # the new axis comes last
            pooled = build.transpose(mixed, [*range(axis), rank - 1, *range(axis, rank - 1)])
        return build.cast(pooled, x.type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        inner = (7, 6)[: cls.rank]
        samples = [Sample((Type(DType.F32, (2, 3, *inner)),), {"size": s}) for s in (1, 2, 3, 7, 9)]
        return samples + [
            Sample((Type(d, (1, 2, *inner)),), {"size": 3}) for d in DType if d in FLOATS
        ]


def window_edges(n: int, size: int) -> tuple[Array, Array]:
    """Where each of `size` windows over n elements starts and ends."""
    i = np.arange(size)
    return i * n // size, -(-(i + 1) * n // size)


def means(n: int, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The matrix (n, size) whose columns average the windows of an adaptive pool."""
    (first, last), row = window_edges(n, size), np.arange(n)[:, None]
    return np.where((first <= row) & (row < last), 1 / (last - first), 0.0)


@declare
class AdaptiveAvgPool1d(Adaptive):
    """The means of `size` windows of nearly equal width along one axis."""

    mnemonic, rank = "adaptive_avg_pool1d", 1


@declare
class AdaptiveAvgPool2d(Adaptive):
    """The means of `size` windows of nearly equal size over two axes."""

    mnemonic, rank = "adaptive_avg_pool2d", 2
