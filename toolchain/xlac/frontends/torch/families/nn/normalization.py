"""Normalizations and their gradients. 16-bit floats are computed in f32; the statistics are
returned as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ops import build

Optional = Node | None


def moments(call: AtenCall, x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """The mean and the (biased) variance over axes, with keepdims."""
    size = amount(call, x, axes)
    mean = build.div(build.reduce(x, "add", axes, True), size)
    gap = build.sub(x, mean)
    return mean, build.div(build.reduce(build.mul(gap, gap), "add", axes, True), size)


def amount(call: AtenCall, x: Node, axes: Sequence[int]) -> Node:
    """The number of elements along axes, as a number of x's type."""
    return build.cast(call.size(volume(tuple(x.shape[a] for a in axes))), x.type.dtype)


def rsqrt(x: Node) -> Node:
    """1 / sqrt(x)."""
    return build.apply1("rsqrt", x)


def affine(x: Node, weight: Optional, bias: Optional, shape: Sequence[Dim]) -> Node:
    """x times weight plus bias, both reshaped to broadcast to x."""
    if weight is not None:
        x = build.mul(x, build.reshape(build.compute(weight), shape))
    return x if bias is None else build.add(x, build.reshape(build.compute(bias), shape))


def composite(
    call: AtenCall,
    name: str,
    x: Node,
    given: Sequence[Optional],
    statistics: Sequence[Node] = (),
    **attributes: object,
) -> Node | None:
    """An operation of ours that normalizes x, with `given` as its weight and bias, or without
    both. None where it has no such form: of other types, with one of two, or where the graph reads
    more results than the first.
    """
    known = [node for node in given if node is not None]
    if call.used - {0} or len(known) not in (0, len(given)):
        return None
    if any(node.type.dtype is not x.type.dtype for node in (*statistics, *known)):
        return None
    affine = bool(known)
    operands = [*known, *statistics]
    return build.apply1(name, x, *operands, affine=affine, **attributes)


# ---- layer ---------------------------------------------------------------------------------------


@aten("native_layer_norm")
def layer_norm(
    call: AtenCall,
    x: Node,
    normalized_shape: Sequence[Dim],
    weight: Optional,
    bias: Optional,
    eps: float,
) -> tuple[Optional, ...]:
    """Normalised over the last axes; the mean and 1 / deviation are results too."""
    first = x.type.rank - len(normalized_shape)
    whole = composite(call, "layer_norm", x, (weight, bias), axis=first, epsilon=float(eps))
    if whole is not None:
        return whole, None, None  # which are not read
    wide = build.compute(x)
    axes = list(range(x.type.rank - len(normalized_shape), x.type.rank))
    mean, variance = moments(call, wide, axes)
    scale = rsqrt(build.add(variance, float(eps)))
    y = affine(build.mul(build.sub(wide, mean), scale), weight, bias, normalized_shape)
    return build.cast(y, x.type.dtype), *as_stated(call, mean, scale)


def as_stated(call: AtenCall, *statistics: Node) -> tuple[Node, ...]:
    """Statistics in the shapes and types that PyTorch states for them."""
    stated = []
    for node, wanted in zip(statistics, call.results[1:], strict=False):
        assert wanted is not None
        stated.append(build.cast(build.reshape(node, wanted.shape), wanted.dtype))
    return tuple(stated)


@aten("native_layer_norm_backward")
def layer_norm_backward(
    call: AtenCall,
    grad: Node,
    x: Node,
    normalized_shape: Sequence[Dim],
    mean: Node,
    rstd: Node,
    weight: Optional,
    bias: Optional,
    output_mask: Sequence[bool],
) -> tuple[Optional, ...]:
    """Gradients of x, weight and bias, as selected by `output_mask`."""
    g, wide = build.compute(grad), build.compute(x)
    inner = list(range(x.type.rank - len(normalized_shape), x.type.rank))
    outer = list(range(x.type.rank - len(normalized_shape)))
    scale = build.compute(rstd)
    normal = build.mul(build.sub(wide, build.compute(mean)), scale)
    gradients: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = g if weight is None else build.mul(g, build.compute(weight))
        gradients[0] = centred(call, weighed, normal, inner, scale)
    if output_mask[1]:
        gradients[1] = build.reduce(build.mul(g, normal), "add", outer)
    if output_mask[2]:
        gradients[2] = build.reduce(g, "add", outer)
    return _cast(gradients, x)


def centred(call: AtenCall, g: Node, normal: Node, axes: Sequence[int], scale: Node) -> Node:
    """The gradient of (x - mean) * scale with respect to x, where mean and scale are statistics
    over axes: scale * (g - mean(g) - normal * mean(g * normal)).
    """
    size = amount(call, g, axes)
    plain = build.div(build.reduce(g, "add", axes, True), size)
    along = build.div(build.reduce(build.mul(g, normal), "add", axes, True), size)
    return build.mul(scale, build.sub(build.sub(g, plain), build.mul(normal, along)))


def _cast(gradients: Sequence[Optional], x: Node) -> tuple[Optional, ...]:
    return tuple(None if node is None else build.cast(node, x.type.dtype) for node in gradients)


# ---- group ---------------------------------------------------------------------------------------


@aten("native_group_norm")
def group_norm(
    call: AtenCall,
    x: Node,
    weight: Optional,
    bias: Optional,
    n: Dim,
    c: int,
    hxw: Dim,
    group: int,
    eps: float,
) -> tuple[Optional, ...]:
    """Normalised over groups of channels; the mean and 1 / deviation are results too."""
    whole = composite(call, "group_norm", x, (weight, bias), groups=group, epsilon=float(eps))
    if whole is not None:
        return whole, None, None  # which are not read
    wide = build.reshape(build.compute(x), (n, group, c // group, hxw))
    mean, variance = moments(call, wide, (2, 3))
    scale = rsqrt(build.add(variance, float(eps)))
    y = build.reshape(build.mul(build.sub(wide, mean), scale), (n, c, hxw))
    y = build.reshape(affine(y, weight, bias, (c, 1)), x.shape)
    return build.cast(y, x.type.dtype), *as_stated(call, mean, scale)


@aten("native_group_norm_backward")
def group_norm_backward(
    call: AtenCall,
    grad: Node,
    x: Node,
    mean: Node,
    rstd: Node,
    weight: Optional,
    n: Dim,
    c: int,
    hxw: Dim,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Optional, ...]:
    """Gradients of x, weight and bias, as selected by `output_mask`."""
    shape = (n, group, c // group, hxw)
    g, wide = (build.reshape(build.compute(v), shape) for v in (grad, x))
    scale, middle = (build.reshape(build.compute(v), (n, group, 1, 1)) for v in (rstd, mean))
    normal = build.mul(build.sub(wide, middle), scale)
    others = [axis for axis in range(x.type.rank) if axis != 1]
    gradients: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = (
            g
            if weight is None
            else build.mul(g, build.reshape(build.compute(weight), (group, c // group, 1)))
        )
        gradients[0] = build.reshape(centred(call, weighed, normal, (2, 3), scale), x.shape)
    if output_mask[1]:
        along = build.mul(build.compute(grad), build.reshape(normal, x.shape))
        gradients[1] = build.reduce(along, "add", others)
    if output_mask[2]:
        gradients[2] = build.reduce(build.compute(grad), "add", others)
    return _cast(gradients, x)


@aten("_fused_rms_norm")
def rms_norm(
    call: AtenCall, x: Node, normalized_shape: Sequence[Dim], weight: Optional, eps: float | None
) -> tuple[Node, ...]:
    """x / root mean square over the last axes; `eps` defaults to the dtype's epsilon."""
    wide = build.compute(x)
    axes = list(range(x.type.rank - len(normalized_shape), x.type.rank))
    square = build.div(
        build.reduce(build.mul(wide, wide), "add", axes, True), amount(call, wide, axes)
    )
    least = (
        {8: 2.220446049250313e-16}.get(x.type.dtype.nbytes, 1.1920928955078125e-07)
        if eps is None
        else eps
    )
    scale = rsqrt(build.add(square, least))
    y = affine(build.mul(wide, scale), weight, None, normalized_shape)
    return build.cast(y, x.type.dtype), *as_stated(call, scale)
