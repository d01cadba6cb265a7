"""The geometry of convolution and pooling windows: kernel_shape, strides, dilations, pads and
auto_pad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops.nn.padding import check_places, covered, pairs

Ints = tuple[int, ...]
AUTO = {"VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


@dataclass(frozen=True, slots=True)
class Windows:
    """The window along each spatial axis: numbers, and (low, high) pairs of padding."""

    kernel: Ints
    strides: Ints
    dilations: Ints
    pads: tuple[tuple[int, int], ...]

    @property
    def low(self) -> Ints:
        """Padding before each axis."""
        return tuple(low for low, _ in self.pads)

    @property
    def high(self) -> Ints:
        """Padding after each axis."""
        return tuple(high for _, high in self.pads)

    @property
    def spans(self) -> Ints:
        """The distance between the first and the last element under a window, along each axis."""
        return tuple((k - 1) * d for k, d in zip(self.kernel, self.dilations, strict=True))


def listed(call: OperatorCall, name: str, count: int, default: int, least: int) -> Ints:
    """An attribute with a number for each of `count` axes."""
    numbers = tuple(call.attr(name, None) or (default,) * count)
    if len(numbers) != count or min(numbers, default=least) < least:
        call.fail(f"{name} needs {count} numbers of at least {least}, got {list(numbers)}")
    return numbers


def windows(call: OperatorCall, extents: Sequence[Dim], kernel: Ints) -> Windows:
    """The windows over spatial axes of given sizes, with the padding of `auto_pad`."""
    rank = len(extents)
    if len(kernel) != rank:
        call.fail(f"a kernel of shape {list(kernel)} does not fit {rank} spatial axes")
    strides, dilations = listed(call, "strides", rank, 1, 1), listed(call, "dilations", rank, 1, 1)
    auto = call.attr("auto_pad", "NOTSET")
    if auto != "NOTSET" and auto not in AUTO:
        call.fail(f"auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID, not '{auto}'")
    given = AUTO[auto] if auto in AUTO else listed(call, "pads", 2 * rank, 0, 0)
    padding = pairs(given, extents, kernel, strides, dilations)  # type: ignore[arg-type]
    covering = Windows(kernel, strides, dilations, padding)
    if not call.attr("ceil_mode", 0):
        fit(call, extents, covering, (0,) * rank)
    return covering


def left_out(
    call: OperatorCall, extents: Sequence[Dim], kernel: Ints
) -> tuple[tuple[int, int], ...]:
    """The elements that no window of a pool covers, before and after each axis, where its padding
    comes out negative.

    `auto_pad` asks for ceil(size / stride) windows and for padding that lets them just cover the
    axis. With strides wider than the window that padding is negative; its halves are rounded
    towards zero.
    """
    rank = len(extents)
    auto = call.attr("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER") or len(kernel) != rank:
        return ((0, 0),) * rank
    strides, dilations = listed(call, "strides", rank, 1, 1), listed(call, "dilations", rank, 1, 1)
    uncovered = []
    for size, k, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        # of a symbolic size, a multiple of the stride
        last = -(-size // stride) * stride - size if isinstance(size, int) else 0
        less = max(0, stride - covered(k, dilation) - last)
        low = less // 2 if auto == "SAME_UPPER" else max(0, less - 1) // 2
        uncovered.append((low, less - low))
    return tuple(uncovered)


def fit(call: OperatorCall, extents: Sequence[Dim], at: Windows, more: Ints) -> None:
    """Raises ShapeError for a window that is larger than its padded axis, including what
    `ceil_mode` adds.
    """
    rooms = [n + low + high + m for n, (low, high), m in zip(extents, at.pads, more, strict=True)]
    check_places(call.operator, extents, 2, [span + 1 for span in at.spans], rooms)


def kernel_of(call: OperatorCall, weight: Node) -> Ints:
    """The spatial sizes of a weight (its axes from 2 on), which `kernel_shape` must repeat if
    given.
    """
    shape = weight.shape[2:]
    if not all(isinstance(size, int) for size in weight.shape):
        call.fail(f"the weight's sizes must be numbers, got {weight.type}")
    if tuple(call.attr("kernel_shape", None) or shape) != shape:
        call.fail(
            f"kernel_shape {call.attr('kernel_shape')} is not that of the weight {weight.type}"
        )
    return shape  # type: ignore[return-value]


def kernel_shape(call: OperatorCall, rank: int) -> Ints:
    """The extents of a pool's window."""
    call.attr("kernel_shape")
    return listed(call, "kernel_shape", rank, 1, 1)
