"""Convolutions as users write them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import folded
from xlac.ir.op import Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype, check_rank
from xlac.ops.nn.padding import Pads, Sizes, check_places, covered, pairs, sizes
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@family
class Spatial(Composite):
    """A convolution over `rank` axes of x: (batch, channels, spatial…), or with `channels_last`
    channels at the end.
    """

    rank: ClassVar[int]
    filters: int = 0
    kernel: Sizes = 1
    stride: Sizes = 1
    pad: Pads = 0
    groups: int = 1
    dilation: Sizes = 1
    bias: bool = True
    channels_last: bool = False

    @abstractmethod
    def weight_shape(self, channels: int) -> Ints:
        """The shape of the learned kernel."""

    def channels(self, x: Type) -> int:
        """The channels of x. Raises ShapeError where they are open or do not fit the groups."""
        check_rank(self.mnemonic, x, self.rank + 2)
        channels = x.shape[-1] if self.channels_last else x.shape[1]
        if not isinstance(channels, int):
            raise ShapeError(
                f"{self.mnemonic} needs a known number of channels, got {x}", operand=0
            )
        if self.filters < 1:
            raise ShapeError(
                f"{self.mnemonic} needs at least 1 filter, got {self.filters}", attribute="filters"
            )
        if self.groups < 1 or channels % self.groups or self.filters % self.groups:
            raise ShapeError(
                f"{channels} channels and {self.filters} filters do not divide into {self.groups} "
                "groups",
                attribute="groups",
            )
        return channels

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        (x,) = types
        learned = {"weight": Type(x.dtype, self.weight_shape(self.channels(x)))}
        return learned | ({"bias": Type(x.dtype, (self.filters,))} if self.bias else {})

    def extents(self, x: Type) -> tuple[Dim, ...]:
        """The spatial sizes of x."""
        return x.shape[1:-1] if self.channels_last else x.shape[2:]

    def layout(self, kernel: str) -> tuple[str, str, str]:
        """The axes of operand, kernel and result, as `Conv` has them; `kernel` is its first two."""
        axes = SPATIAL[self.rank]
        data = f"N{axes}C" if self.channels_last else f"NC{axes}"
        return data, kernel + axes, data

    def check(self, types: Sequence[Type]) -> Type:
        """The type of x, once it and the learned tensors are checked. Raises ShapeError."""
        x, *learned = types
        check_dtype(self.mnemonic, x, FLOATS)
        wanted = self.parameters(x)
        if len(learned) != len(wanted):
            raise ShapeError(
                f"{self.mnemonic} needs {' and '.join(wanted)} after its input, got {len(learned)} "
                "more operands"
            )
        check_one_dtype(self.mnemonic, types)
        for number, (name, type) in enumerate(wanted.items()):
            if learned[number] != type:
                raise ShapeError(
                    f"{name} of {self.mnemonic} is {type}, got {learned[number]}",
                    operand=number + 1,
                )
        return x

    def least(self, result: Type) -> Ints:
        return (0, *[1] * self.rank, 0) if self.channels_last else (0, 0, *[1] * self.rank)

    @abstractmethod
    def primitive(self, x: Type) -> Conv:
        """The equivalent general convolution."""

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return folded(node, inputs, mapped, size)

    def infer(self, *types: Type) -> Type:
        x = self.check(types)
        op, extents = self.primitive(x), self.extents(x)
        rooms = [
            (n - 1) * d + 1 + low + high
            for n, d, low, high in zip(extents, op.lhs_dilation, op.low, op.high, strict=True)
        ]
        windows = [
            covered(k, d)
            for k, d in zip(sizes("kernel", self.kernel, self.rank), op.rhs_dilation, strict=True)
        ]
        check_places(self.mnemonic, extents, 1 if self.channels_last else 2, windows, rooms)
        return op.infer(x, self.kernel_type(types[1])).with_dtype(x.dtype)

    def kernel_type(self, weight: Type) -> Type:
        """The type of the kernel that the primitive takes."""
        return weight

    def kernel_node(self, weight: Node) -> Node:
        """The weight with its axes in the order of `Conv`."""
        return weight

    def expand(self, *inputs: Node) -> Node:
        x, weight, *rest = inputs
        sums = Node.of(self.primitive(x.type), x, self.kernel_node(weight))
        if rest:
            axis = self.rank + 1 if self.channels_last else 1
            sums = build.add(
                sums, build.along(build.compute(rest[0]), axis, sums.type.rank, sums.shape)
            )
        return build.cast(sums, x.type.dtype)


class ForwardConvolution(Spatial):
    """A convolution from the input to the result, as opposed to a transposed one."""

    def weight_shape(self, channels: int) -> Ints:
        return (self.filters, channels // self.groups, *sizes("kernel", self.kernel, self.rank))

    def primitive(self, x: Type) -> Conv:
        kernel = sizes("kernel", self.kernel, self.rank)
        strides, dilation = (
            sizes("stride", self.stride, self.rank),
            sizes("dilation", self.dilation, self.rank),
        )
        pads = pairs(self.pad, self.extents(x), kernel, strides, dilation)
        low, high = tuple(p[0] for p in pads), tuple(p[1] for p in pads)
        return Conv(
            self.layout("OI"),
            strides,
            low,
            high,
            (1,) * self.rank,
            dilation,
            self.groups,
            1,
            x.dtype.compute,
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return samples(
            cls,
            [
                {},
                {"pad": 1},
                {"pad": "same_upper", "stride": 2},
                {"pad": "same_lower", "stride": 2},
                {"groups": 2},
                {"dilation": 2, "bias": False},
                {"pad": ((1, 2),) * cls.rank},
                {"pad": (1,) * (2 * cls.rank)},
                {"channels_last": True, "pad": 1},
            ],
        )


def samples(cls: type[Spatial], given: Sequence[dict[str, Any]]) -> list[Sample]:
    """A sample for each set of attributes, for each element type, and for an empty batch."""
    listed = []

    def case(attributes: dict[str, Any], dtype: DType = DType.F32, batch: int = 2) -> Sample:
        known: dict[str, Any] = {"filters": 6, "kernel": 3} | attributes
        op = cls(**known)
        inner = (7, 8, 5)[: cls.rank] if cls.rank < 3 else (5, 5, 6)
        x = Type(dtype, (batch, *inner, 4) if op.channels_last else (batch, 4, *inner))
        return Sample((x, *op.parameters(x).values()), known)

    listed += [case(g) for g in given]
    listed += [case({}, d) for d in DType if d in FLOATS]
    return [*listed, case({"pad": 1}, batch=0)]


@declare
class Conv1d(ForwardConvolution):
    """Convolution over one axis: x (batch, channels, width), weight (filters, channels / groups,
    kernel).
    """

    mnemonic, rank = "conv1d", 1


@declare
class Conv2d(ForwardConvolution):
    """Convolution over two axes: x (batch, channels, height, width), weight (filters, channels /
    groups, *kernel).
    """

    mnemonic, rank = "conv2d", 2


@declare
class Conv3d(ForwardConvolution):
    """Convolution over three axes: x (batch, channels, depth, height, width), weight (filters,
    channels / groups, *kernel).
    """

    mnemonic, rank = "conv3d", 3
