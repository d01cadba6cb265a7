"""A convolution transposed: the cotangents of x and of the kernel are convolutions themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xlac.ir.dims import static
from xlac.ir.graph import Node, apply
from xlac.ir.types import Type
from xlac.ops.reduction import depthwise_gradient
from xlac.ops.reduction.contraction import narrowed
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.ops.reduction.conv import Conv

_SWAP_OI = str.maketrans("OI", "IO")
_SWAP_NC = str.maketrans("NC", "CN")
_AS_KERNEL = str.maketrans("NC", "IO")  # a result's channels are what its kernel gives
_AS_RESULT = str.maketrans("OI", "CN")
_RESULT_OF_KERNEL, _KERNEL_OF_RESULT = str.maketrans("IO", "NC"), str.maketrans("CN", "OI")


def _moved(x: Node, source: int, target: int, groups: int) -> Node:
    """Groups, the outer part of one axis, become the outer part of another."""
    shape = [(groups, size // groups) if a == source else (size,) for a, size in enumerate(x.shape)]
    split = apply("reshape", x, shape=tuple(size for sizes in shape for size in sizes))
    order = [axis for axis in range(split.type.rank) if axis != source]
    order.insert(order.index(target + (target > source)), source)
    merged = [
        size // groups if a == source else size * groups if a == target else size
        for a, size in enumerate(x.shape)
    ]
    return apply("reshape", apply("transpose", split, perm=tuple(order)), shape=tuple(merged))


def _extents(op: Conv, node: Node) -> list[tuple[int, ...]]:
    """How far x, the kernel and the result reach along each spatial axis, spread by their
    dilations and strides.
    """
    shapes = [
        dict(zip(text, shape, strict=True))
        for text, shape in zip(
            op.layout, (node.inputs[0].shape, node.inputs[1].shape, node.shape), strict=True
        )
    ]
    gaps = zip(op.lhs_dilation, op.rhs_dilation, op.strides, strict=True)
    return [
        static(  # a batch may be open, what a kernel moves over may not
            tuple((shape[letter] - 1) * gap + 1 for shape, gap in zip(shapes, each, strict=True))
        )
        for letter, each in zip(op.spatial, gaps, strict=True)
    ]


def transposed_in_x(op: Conv, node: Node, ct: Node) -> Node:
    """The cotangent of x: the result's, spread by the strides, with the kernel reversed and its
    channels exchanged.
    """
    kernel, letters = node.inputs[1], op.layout[1]
    groups = max(op.feature_groups, op.batch_groups)
    out, into = letters.index("O"), letters.index("I")
    if groups > 1:  # [groups * o, i] becomes [o, groups * i]
        kernel = _moved(kernel, out, into, groups)
    steps = tuple(-1 if letter in op.spatial else 1 for letter in letters)
    starts = tuple(n - 1 if k < 0 else 0 for n, k in zip(kernel.shape, steps, strict=True))
    stops = tuple(-1 if k < 0 else n for n, k in zip(kernel.shape, steps, strict=True))
    kernel = apply("slice", kernel, starts=starts, stops=stops, steps=steps)
    extents = _extents(op, node)
    low = tuple(k - first - 1 for (_, k, _), first in zip(extents, op.low, strict=True))
    high = tuple(x + k - 1 - y - before for (x, k, y), before in zip(extents, low, strict=True))
    back = _applied(
        op,
        ct,
        kernel,
        (op.layout[2], letters.translate(_SWAP_OI), op.layout[0]),
        strides=op.lhs_dilation,
        low=low,
        high=high,
        lhs_dilation=op.strides,
        rhs_dilation=op.rhs_dilation,
        feature_groups=groups,
    )
    if op.batch_groups > 1:  # [n, groups * c] becomes [groups * n, c]
        back = _moved(back, op.layout[0].index("C"), op.layout[0].index("N"), groups)
    return back


def transposed_in_kernel(op: Conv, node: Node, ct: Node) -> Node:
    """The cotangent of the kernel: x convolved with that of the result, over the batch."""
    x, kernel = node.inputs
    if depthwise_gradient.applies(op, x, kernel.shape):
        return depthwise_gradient.of_weights(op, x, kernel.shape, ct)
    extents = _extents(op, node)
    high = tuple(y - x + k - first - 1 for (x, k, y), first in zip(extents, op.low, strict=True))
    return _applied(
        op,
        node.inputs[0],
        ct,
        (
            op.layout[0].translate(_SWAP_NC),
            op.layout[2].translate(_AS_KERNEL),
            op.layout[1].translate(_AS_RESULT),
        ),
        strides=op.rhs_dilation,
        low=op.low,
        high=high,
        lhs_dilation=op.lhs_dilation,
        rhs_dilation=op.strides,
        feature_groups=op.batch_groups,
        batch_groups=op.feature_groups,
    )


def kernel_cotangent(op: Conv, x: Node, ct: Node) -> Node | None:
    """What a convolution over groups of a batch gives, as others write the cotangent of a depthwise
    kernel, in the form that it has here; None for any other.
    """
    if op.batch_groups == 1 or op.feature_groups != 1:
        return None
    data, kernel, result = op.layout
    layout = (
        data.translate(_SWAP_NC),
        result.translate(_KERNEL_OF_RESULT),
        kernel.translate(_RESULT_OF_KERNEL),
    )
    forward = replace(
        op,
        layout=layout,
        strides=op.rhs_dilation,
        rhs_dilation=op.strides,
        feature_groups=op.batch_groups,
        batch_groups=1,
    )
    shape = op.infer(x.type, ct.type)
    assert isinstance(shape, Type)
    if not depthwise_gradient.applies(forward, x, shape.shape):
        return None
    return depthwise_gradient.of_weights(forward, x, shape.shape, ct)


def _applied(op: Conv, x: Node, kernel: Node, layout: tuple[str, str, str], **given: Any) -> Node:
    """A convolution whose spatial attributes follow this one's order, in the wider of the
    operands' types.
    """
    order = [op.spatial.index(letter) for letter in layout[0] if letter in op.spatial]
    attributes = {
        name: tuple(value[axis] for axis in order) if isinstance(value, tuple) else value
        for name, value in given.items()
    }
    out = wide = max(x.type.dtype, kernel.type.dtype, key=lambda d: (d.is_float, d.bits))
    x, kernel = narrowed(x, kernel.type.dtype), narrowed(kernel, x.type.dtype)
    if x.type.dtype is kernel.type.dtype:
        wide = x.type.dtype
    operands = [
        n if n.type.dtype in (wide, DType.I8) else apply("cast", n, dtype=wide) for n in (x, kernel)
    ]
    if wide is not out:
        attributes["out_dtype"] = out
    return apply("conv", *operands, layout=layout, **attributes)
