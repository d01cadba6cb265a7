"""Transposed convolutions as users write them."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare, family
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.nn.convolution import Ints, Spatial, samples
from xlac.ops.nn.padding import Sizes, pairs, sizes
from xlac.ops.reduction.conv import Conv


@family
class Transposed(Spatial):
    """The gradient of a convolution with respect to its input: upsamples x by its stride."""

    output_padding: Sizes = 0

    def weight_shape(self, channels: int) -> Ints:
        return (channels, self.filters // self.groups, *sizes("kernel", self.kernel, self.rank))

    def primitive(self, x: Type) -> Conv:
        kernel = sizes("kernel", self.kernel, self.rank)
        strides, dilation = (
            sizes("stride", self.stride, self.rank),
            sizes("dilation", self.dilation, self.rank),
        )
        extra = sizes("output_padding", self.output_padding, self.rank, least=0)
        low, high = [], []
        for axis, (k, s, d) in enumerate(zip(kernel, strides, dilation, strict=True)):
            span = (k - 1) * d
            # the result has size * stride elements
            if isinstance(self.pad, str) and self.pad != "valid":
                crop = max(0, span + 1 - s)
                before = crop // 2 if self.pad == "same_upper" else crop - crop // 2
                after, more = crop - before, max(0, s - span - 1)
            else:
                before, after = pairs(self.pad, self.extents(x), kernel, strides, dilation)[axis]
                more = 0
            low.append(span - before)
            high.append(span - after + extra[axis] + more)
        one = (1,) * self.rank
        return Conv(
            self.layout("OI"),
            one,
            tuple(low),
            tuple(high),
            strides,
            dilation,
            self.groups,
            1,
            x.dtype.compute,
        )

    def kernel_type(self, weight: Type) -> Type:
        channels, filters, *kernel = weight.shape
        return weight.with_shape((filters * self.groups, channels // self.groups, *kernel))

    def kernel_node(self, weight: Node) -> Node:
        """The weight flipped, and transposed from (in, out) to (out, in) within each group."""
        channels, filters, *kernel = weight.shape
        groups, rank = self.groups, self.rank
        apart = build.reshape(weight, (groups, channels // groups, filters, *kernel))
        swapped = build.transpose(apart, (0, 2, 1, *range(3, 3 + rank)))
        joined = build.reshape(swapped, (filters * groups, channels // groups, *kernel))
        ends = [n - 1 for n in kernel]
        return build.slice_(
            joined, (0, 0, *ends), (*joined.shape[:2], *[-1] * rank), (1, 1, *[-1] * rank)
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return samples(
            cls,
            [
                {},
                {"pad": 1},
                {"stride": 2},
                {"stride": 2, "pad": 1, "output_padding": 1},
                {"groups": 2, "stride": 2},
                {"dilation": 2, "bias": False},
                {"pad": "same_upper", "stride": 2},
                {"pad": "same_lower", "stride": 4},
                {"channels_last": True},
            ],
        )


@declare
class ConvTranspose1d(Transposed):
    """Transposed convolution over one axis; weight (channels, filters / groups, kernel)."""

    mnemonic, rank = "conv_transpose1d", 1


@declare
class ConvTranspose2d(Transposed):
    """Transposed convolution over two axes; weight (channels, filters / groups, *kernel).

    A result axis has (size - 1) * stride + (kernel - 1) * dilation + 1 - pads + output_padding
    elements, or with `pad: same_*` size * stride.
    """

    mnemonic, rank = "conv_transpose2d", 2


@declare
class ConvTranspose3d(Transposed):
    """Transposed convolution over three axes; weight (channels, filters / groups, *kernel). Sizes
    as for two axes.
    """

    mnemonic, rank = "conv_transpose3d", 3
