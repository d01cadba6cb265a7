"""Pooling: the maximum or the mean of the elements under a moving window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node
from xlac.ir.leading import folded
from xlac.ir.op import Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_rank
from xlac.ops.nn.padding import Pads, Sizes, check_places, covered, pairs, sizes
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


class Pool(Composite):
    """x is (batch, channels, spatial…). The stride is that of the kernel when not given.

    With `ceil_mode` a last window that begins inside x or its lower padding counts, though it ends
    outside.
    """

    rank: ClassVar[int]
    accepts: ClassVar[frozenset[DType]] = NUMBERS
    kernel: Sizes
    stride: Sizes | None
    pad: Pads
    ceil_mode: bool

    @property
    def spread(self) -> Ints:
        """The distance between the elements under the window."""
        return (1,) * self.rank

    def geometry(self, x: Type) -> tuple[Ints, Ints, list[tuple[int, int]], Ints]:
        """Kernel and strides, the padding of each spatial axis, and the additional padding after it
        for `ceil_mode`.
        """
        kernel = sizes("kernel", self.kernel, self.rank)
        strides = sizes("stride", self.kernel if self.stride is None else self.stride, self.rank)
        pads = list(pairs(self.pad, x.shape[2:], kernel, strides, self.spread))
        more = []
        for axis, (n, k, s, d, (low, high)) in enumerate(
            zip(x.shape[2:], kernel, strides, self.spread, pads, strict=True)
        ):
            window = (k - 1) * d + 1
            if not self.ceil_mode:
                more.append(0)
                continue
            if not isinstance(n, int):
                raise ShapeError(
                    f"ceil_mode needs a known size of axis {axis + 2}, got {x}",
                    attribute="ceil_mode",
                )
            count = -(-(n + low + high - window) // s) + 1
            count -= (count - 1) * s >= n + low
            more.append(max(0, (count - 1) * s + window - n - low - high))
        return kernel, strides, pads, tuple(more)

    def least(self, result: Type) -> Ints:
        return (0, 0, *[1] * self.rank)

    def window(self, combine: str, x: Type, inner: bool = False) -> Window:
        """The primitive; with `inner`, x is padded already, except for `ceil_mode`."""
        kernel, strides, pads, more = self.geometry(x)
        low = tuple(0 if inner else p[0] for p in pads)
        high = tuple((0 if inner else p[1]) + extra for p, extra in zip(pads, more, strict=True))
        return Window(
            combine,
            None,
            (1, 1, *kernel),
            (1, 1, *strides),
            (0, 0, *low),
            (0, 0, *high),
            (1,) * (self.rank + 2),
            (1, 1, *self.spread),
        )

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return folded(node, inputs, mapped, size)

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, self.accepts)
        check_rank(self.mnemonic, x, self.rank + 2)
        kernel, _, pads, more = self.geometry(x)
        for (low, high), k, d in zip(pads, kernel, self.spread, strict=True):
            if max(low, high) > (k - 1) * d:
                raise ShapeError(
                    f"{self.mnemonic}: padding {max(low, high)} is wider than the window",
                    attribute="pad",
                )
        rooms = [
            n + low + high + m for n, (low, high), m in zip(x.shape[2:], pads, more, strict=True)
        ]
        check_places(
            self.mnemonic,
            x.shape[2:],
            2,
            [covered(k, d) for k, d in zip(kernel, self.spread, strict=True)],
            rooms,
        )
        result = self.window("max", x).infer(x)
        assert isinstance(result, Type)
        return result

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        inner = {1: (11,), 2: (9, 8), 3: (5, 6, 5)}[cls.rank]
        given: list[dict[str, object]] = [
            {"kernel": 2},
            {"kernel": 3, "stride": 2},
            {"kernel": 3, "stride": 2, "pad": 1},
            {"kernel": 3, "stride": 1, "pad": "same_upper"},
            {"kernel": 3, "stride": 2, "pad": "same_lower"},
            {"kernel": 3, "stride": 2, "ceil_mode": True},
            {"kernel": 2, "stride": 3, "pad": 1, "ceil_mode": True},
            {"kernel": (2,) * cls.rank, "pad": ((0, 1),) * cls.rank},
        ]
        samples = [Sample((Type(DType.F32, (2, 3, *inner)),), g) for g in given]
        samples += [
            Sample((Type(d, (1, 2, *inner)),), given[2], ("small",))
            for d in DType
            if d in cls.accepts
        ]
        return [*samples, Sample((Type(DType.F32, (0, 3, *inner)),), given[0])]


@family
class MaxPool(Pool):
    """The largest element under a window."""

    kernel: Sizes = 2
    stride: Sizes | None = None
    pad: Pads = 0
    dilation: Sizes = 1
    ceil_mode: bool = False

    @property
    def spread(self) -> Ints:
        return sizes("dilation", self.dilation, self.rank)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        return Node.of(self.window("max", x.type), x)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        inner = {1: (11,), 2: (9, 8), 3: (5, 6, 5)}[cls.rank]
        more = [
            Sample((Type(DType.F32, (2, 3, *inner)),), {"kernel": 2, "stride": 1, "dilation": 2})
        ]
        return [
            *super().samples(),
            *more,
            Sample((Type(DType.F32, (2, 3, *inner)),), {"kernel": 2}, ("special",)),
        ]


@family
class AvgPool(Pool):
    """The mean of the elements under a window."""

    accepts = FLOATS
    kernel: Sizes = 2
    stride: Sizes | None = None
    pad: Pads = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        kernel, _, pads, more = self.geometry(x.type)
        total = Node.of(self.window("add", x.type), build.compute(x))
        if not any(more) and (self.count_include_pad or not any(p for pair in pads for p in pair)):
            return build.cast(build.div(total, float(math.prod(kernel))), x.type.dtype)
        # the number of elements under each window: padding counts if requested, that of ceil_mode
        # never
        ones = build.full(1.0, (1, 1, *x.shape[2:]), total.type.dtype)
        low, high = (0, 0, *(p[0] for p in pads)), (0, 0, *(p[1] for p in pads))
        ones = build.pad(ones, 1.0 if self.count_include_pad else 0.0, low, high)
        count = Node.of(self.window("add", x.type, inner=True), ones)
        return build.cast(build.div(total, count), x.type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        inner = {1: (11,), 2: (9, 8), 3: (5, 6, 5)}[cls.rank]
        given = {"kernel": 3, "stride": 2, "pad": 1, "count_include_pad": False}
        more = [given, given | {"ceil_mode": True}]
        return [*super().samples(), *(Sample((Type(DType.F32, (2, 3, *inner)),), g) for g in more)]


@declare
class MaxPool1d(MaxPool):
    """The largest element under a window that moves over one axis; padding is never the largest."""

    mnemonic, rank = "max_pool1d", 1
    creates = frozenset({INFINITY})


@declare
class MaxPool2d(MaxPool):
    """The largest element under a window that moves over two axes; padding is never the largest."""

    mnemonic, rank = "max_pool2d", 2
    creates = frozenset({INFINITY})


@declare
class MaxPool3d(MaxPool):
    """The largest element under a window that moves over three axes, never of the padding."""

    mnemonic, rank = "max_pool3d", 3
    creates = frozenset({INFINITY})


@declare
class AvgPool1d(AvgPool):
    """The mean of the elements under a window that moves over one axis; padding counts as zeros if
    `count_include_pad`.
    """

    mnemonic, rank = "avg_pool1d", 1


@declare
class AvgPool2d(AvgPool):
    """The mean of the elements under a window that moves over two axes; padding counts as zeros if
    `count_include_pad`.
    """

    mnemonic, rank = "avg_pool2d", 2


@declare
class AvgPool3d(AvgPool):
    """The mean of the elements under a window that moves over three axes; padding counts as zeros
    if `count_include_pad`.
    """

    mnemonic, rank = "avg_pool3d", 3
