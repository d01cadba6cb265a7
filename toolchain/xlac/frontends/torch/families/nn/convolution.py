"""Convolutions and their gradients, each as one generalized convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.conv_transposed import transposed_in_kernel

Ints = tuple[int, ...]
LETTERS = {1: "W", 2: "HW", 3: "DHW"}


class ConvolutionGeometry:
    """Strides, padding and dilation of a convolution over `rank` axes; a single number applies to
    all axes.
    """

    def __init__(
        self,
        rank: int,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> None:
        if rank not in LETTERS:
            raise NotExpressible(f"a convolution over {rank} axes")
        self.rank, self.groups = rank, groups
        self.stride, self.padding, self.dilation = (
            each(v, rank) for v in (stride, padding, dilation)
        )

    def forward(self, x: Node, weight: Node) -> Node:
        """x (batch, channels, …) convolved with weight (filters, channels / groups, …)."""
        ones = (1,) * self.rank
        return self._conv(
            x,
            weight,
            self.layout(),
            self.stride,
            self.padding,
            self.padding,
            ones,
            self.dilation,
            self.groups,
        )

    def backward(self, grad: Node, weight: Node, extents: Sequence[Dim]) -> Node:
        """The gradient of x with the given spatial sizes; also the result of a transposed
        convolution.
        """
        kernel = self.kernel(weight)
        flipped = build.apply1(
            "flip", _swapped(weight, self.groups), axis=list(range(2, self.rank + 2))
        )
        low, high = [], []
        for axis in range(self.rank):
            reach = self.dilation[axis] * (kernel[axis] - 1)
            low.append(reach - self.padding[axis])
            spread = (grad.shape[2 + axis] - 1) * self.stride[axis] + 1
            gap = extents[axis] + reach - low[axis] - spread
            if not isinstance(gap, int):
                raise NotExpressible(f"the gradient of a convolution over a size {extents[axis]}")
            high.append(gap)
        ones = (1,) * self.rank
        return self._conv(
            grad,
            flipped,
            self.layout(),
            ones,
            tuple(low),
            tuple(high),
            self.stride,
            self.dilation,
            self.groups,
        )

    def kernel_gradient(self, x: Node, grad: Node, weight: Node) -> Node:
        """The gradient of the weight."""
        forward = self.forward(x, weight)
        if any(not isinstance(size, int) for size in (*x.shape[2:], *grad.shape[2:])):
            raise NotExpressible(f"the gradient of a kernel over sizes {x.shape[2:]}")
        return transposed_in_kernel(forward.op, forward, grad)  # type: ignore[arg-type]

    def layout(self) -> tuple[str, str, str]:
        """The layout of x, weight and result: channels first."""
        letters = LETTERS[self.rank]
        return "NC" + letters, "OI" + letters, "NC" + letters

    def kernel(self, weight: Node) -> Ints:
        """The spatial sizes of the kernel, which must be static."""
        sizes = [size for size in weight.shape[2:] if isinstance(size, int)]
        if len(sizes) != self.rank:
            raise NotExpressible("a convolution with a kernel of unknown size")
        return tuple(sizes)

    def _conv(
        self,
        x: Node,
        kernel: Node,
        layout: tuple[str, str, str],
        strides: Ints,
        low: Ints,
        high: Ints,
        spread: Ints,
        apart: Ints,
        groups: int = 1,
        batches: int = 1,
    ) -> Node:
        """A convolution in the compute type, so that the result is rounded once."""
        op = Conv(
            layout,
            strides,
            low,
            high,
            spread,
            apart,
            groups,
            batches,
            x.type.dtype.compute if x.type.dtype.is_half else None,
        )
        return Node.of(op, x, kernel)


def each(values: Sequence[int], rank: int) -> Ints:
    """One number for each axis; a single number is repeated."""
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _swapped(weight: Node, groups: int) -> Node:
    """A weight (filters, channels / groups, …) with inputs and outputs swapped: (channels, filters
    / groups, …).
    """
    filters, channels, *kernel = weight.shape
    if groups == 1:
        return build.transpose(weight, [1, 0, *range(2, weight.type.rank)])
    apart = build.reshape(weight, (groups, filters // groups, channels, *kernel))
    moved = build.transpose(apart, [0, 2, 1, *range(3, apart.type.rank)])
    return build.reshape(moved, (groups * channels, filters // groups, *kernel))


@aten("convolution")
def convolution(
    call: AtenCall,
    x: Node,
    weight: Node,
    bias: Node | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Node:
    """Channels-first convolution, or a transposed one if `transposed`; x may lack the
    batch axis.
    """
    rank = weight.type.rank - 2
    batched = x.type.rank == weight.type.rank
    x = x if batched else build.reshape(x, (1, *x.shape))
    geometry = ConvolutionGeometry(rank, stride, padding, dilation, groups)
    shape = call.shape if batched else (1, *call.shape)
    sums = geometry.backward(x, weight, shape[2:]) if transposed else geometry.forward(x, weight)
    if bias is not None:
        sums = build.add(sums, build.reshape(build.compute(bias), (-1, *[1] * rank)))
    sums = build.cast(sums, call.dtype)
    return sums if batched else build.reshape(sums, call.shape)


@aten("convolution_backward")
def convolution_backward(
    call: AtenCall,
    grad: Node,
    x: Node,
    weight: Node,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Node | None, ...]:
    """Gradients of x, weight and bias, as selected by `output_mask`."""
    geometry = ConvolutionGeometry(weight.type.rank - 2, stride, padding, dilation, groups)
    geometry.kernel(weight)
    gradients: list[Node | None] = [None, None, None]
    if output_mask[0]:
        gradients[0] = (
            geometry.forward(grad, weight)
            if transposed
            else geometry.backward(grad, weight, x.shape[2:])
        )
    if output_mask[1]:
        sides = (grad, x) if transposed else (x, grad)
        seen, asked = (build.compute(v) for v in sides)
        gradients[1] = geometry.kernel_gradient(seen, asked, build.compute(weight))
    if output_mask[2]:
        gradients[2] = build.reduce(build.compute(grad), "add", [0, *range(2, grad.type.rank)])
    return tuple(None if node is None else build.cast(node, x.type.dtype) for node in gradients)
