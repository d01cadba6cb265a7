"""Normalizations and their gradients. Halves are computed in f32; statistics are what PyTorch
returns beside the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.table import Call, aten
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ops import build

Optional = Node | None


def moments(call: Call, x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """The mean and the (biased) variance over axes, which stay with extent 1."""
    size = amount(call, x, axes)
    mean = build.div(build.reduce(x, "add", axes, True), size)
    gap = build.sub(x, mean)
    return mean, build.div(build.reduce(build.mul(gap, gap), "add", axes, True), size)


def amount(call: Call, x: Node, axes: Sequence[int]) -> Node:
    """How many elements lie along axes, as a number of x's type."""
    return build.cast(call.size(volume(tuple(x.shape[a] for a in axes))), x.type.dtype)


def rsqrt(x: Node) -> Node:
    return build.apply1("rsqrt", x)


def affine(x: Node, weight: Optional, bias: Optional, shape: Sequence[Dim]) -> Node:
    """x times weight plus bias, each first given a shape that broadcasts to x's."""
    if weight is not None:
        x = build.mul(x, build.reshape(build.compute(weight), shape))
    return x if bias is None else build.add(x, build.reshape(build.compute(bias), shape))


# ---- layer ---------------------------------------------------------------------------------------


@aten("native_layer_norm")
def layer_norm(
    call: Call,
    x: Node,
    normalized_shape: Sequence[Dim],
    weight: Optional,
    bias: Optional,
    eps: float,
) -> tuple[Node, ...]:
    wide = build.compute(x)
    axes = list(range(x.type.rank - len(normalized_shape), x.type.rank))
    mean, variance = moments(call, wide, axes)
    scale = rsqrt(build.add(variance, float(eps)))
    y = affine(build.mul(build.sub(wide, mean), scale), weight, bias, normalized_shape)
    return build.cast(y, x.type.dtype), *_as_stated(call, mean, scale)


def _as_stated(call: Call, *statistics: Node) -> tuple[Node, ...]:
    """Statistics in the shapes and types that PyTorch states for them."""
    found = []
    for node, wanted in zip(statistics, call.results[1:], strict=False):
        assert wanted is not None
        found.append(build.cast(build.reshape(node, wanted.shape), wanted.dtype))
    return tuple(found)


@aten("native_layer_norm_backward")
def layer_norm_backward(
    call: Call,
    grad: Node,
    x: Node,
    normalized_shape: Sequence[Dim],
    mean: Node,
    rstd: Node,
    weight: Optional,
    bias: Optional,
    output_mask: Sequence[bool],
) -> tuple[Optional, ...]:
    g, wide = build.compute(grad), build.compute(x)
    inner = list(range(x.type.rank - len(normalized_shape), x.type.rank))
    outer = list(range(x.type.rank - len(normalized_shape)))
    scale = build.compute(rstd)
    normal = build.mul(build.sub(wide, build.compute(mean)), scale)
    found: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = g if weight is None else build.mul(g, build.compute(weight))
        found[0] = centred(call, weighed, normal, inner, scale)
    if output_mask[1]:
        found[1] = build.reduce(build.mul(g, normal), "add", outer)
    if output_mask[2]:
        found[2] = build.reduce(g, "add", outer)
    return _cast(found, x)


def centred(call: Call, g: Node, normal: Node, axes: Sequence[int], scale: Node) -> Node:
    """The gradient through (x - mean) * scale, both measured over axes: scale * (g - mean g -
    normal * mean(g * normal)).
    """
    size = amount(call, g, axes)
    plain = build.div(build.reduce(g, "add", axes, True), size)
    along = build.div(build.reduce(build.mul(g, normal), "add", axes, True), size)
    return build.mul(scale, build.sub(build.sub(g, plain), build.mul(normal, along)))


def _cast(found: Sequence[Optional], x: Node) -> tuple[Optional, ...]:
    return tuple(None if node is None else build.cast(node, x.type.dtype) for node in found)


# ---- group ---------------------------------------------------------------------------------------


@aten("native_group_norm")
def group_norm(
    call: Call,
    x: Node,
    weight: Optional,
    bias: Optional,
    n: Dim,
    c: int,
    hxw: Dim,
    group: int,
    eps: float,
) -> tuple[Node, ...]:
    wide = build.reshape(build.compute(x), (n, group, c // group, hxw))
    mean, variance = moments(call, wide, (2, 3))
    scale = rsqrt(build.add(variance, float(eps)))
    y = build.reshape(build.mul(build.sub(wide, mean), scale), (n, c, hxw))
    y = build.reshape(affine(y, weight, bias, (c, 1)), x.shape)
    return build.cast(y, x.type.dtype), *_as_stated(call, mean, scale)


@aten("native_group_norm_backward")
def group_norm_backward(
    call: Call,
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
    shape = (n, group, c // group, hxw)
    g, wide = (build.reshape(build.compute(v), shape) for v in (grad, x))
    scale, middle = (build.reshape(build.compute(v), (n, group, 1, 1)) for v in (rstd, mean))
    normal = build.mul(build.sub(wide, middle), scale)
    found: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = (
            g
            if weight is None
            else build.mul(g, build.reshape(build.compute(weight), (group, c // group, 1)))
        )
        found[0] = build.reshape(centred(call, weighed, normal, (2, 3), scale), x.shape)
    if output_mask[1]:
        found[1] = build.reshape(build.reduce(build.mul(g, normal), "add", (0, 3)), (c,))
    if output_mask[2]:
        found[2] = build.reshape(build.reduce(g, "add", (0, 3)), (c,))
    return _cast(found, x)


# ---- batch ---------------------------------------------------------------------------------------


def _along_channels(x: Node) -> tuple[list[int], tuple[Dim, ...]]:
    """All axes but that of channels, and the shape that spreads a vector of channels."""
    channels = x.shape[1]
    return [a for a in range(x.type.rank) if a != 1], (channels, *[1] * (x.type.rank - 2))


def _normal(
    call: Call,
    x: Node,
    weight: Optional,
    bias: Optional,
    eps: float,
    known: tuple[Node, Node] | None,
) -> tuple[Node, ...]:
    """The result, mean, variance and 1 / deviation; `known` are statistics to be used in place of
    measured ones.
    """
    wide = build.compute(x)
    axes, spread = _along_channels(x)
    mean, variance = (
        (build.reshape(build.compute(v), spread) for v in known)
        if known
        else moments(call, wide, axes)
    )
    scale = rsqrt(build.add(variance, float(eps)))
    y = affine(build.mul(build.sub(wide, mean), scale), weight, bias, spread)
    channels = (x.shape[1],)
    return build.cast(y, x.type.dtype), *(
        build.reshape(v, channels) for v in (mean, variance, scale)
    )


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    call: Call,
    x: Node,
    weight: Optional,
    bias: Optional,
    running_mean: Node,
    running_var: Node,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    y, *_ = _normal(call, x, weight, bias, eps, (running_mean, running_var))
    return y, *(call.filled_as(number, 0) for number in (1, 2))


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_measured(
    call: Call,
    x: Node,
    weight: Optional,
    bias: Optional,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    y, mean, _, scale = _normal(call, x, weight, bias, eps, None)
    return y, *_as_stated(call, mean, scale)


@aten("_native_batch_norm_legit_functional")
def batch_norm_training(
    call: Call,
    x: Node,
    weight: Optional,
    bias: Optional,
    running_mean: Node,
    running_var: Node,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    """The new running statistics come last; the variance among them is the unbiased one."""
    if not training:
        y, *_ = _normal(call, x, weight, bias, eps, (running_mean, running_var))
        return (
            y,
            *(call.filled_as(number, 0) for number in (1, 2)),
            *(
                build.cast(v, call.stated(n).dtype)
                for n, v in ((3, running_mean), (4, running_var))
            ),
        )
    y, mean, variance, scale = _normal(call, x, weight, bias, eps, None)
    size = amount(call, build.compute(x), _along_channels(x)[0])
    unbiased = build.mul(variance, build.div(size, build.sub(size, 1.0)))
    pairs = zip((3, 4), (running_mean, running_var), (mean, unbiased), strict=True)
    news = [
        build.cast(_moved(old, new, momentum), call.stated(number).dtype)
        for number, old, new in pairs
    ]
    return y, *_as_stated(call, mean, scale), *news


def _moved(old: Node, new: Node, momentum: float) -> Node:
    return build.add(
        build.mul(build.compute(old), 1 - momentum),
        build.mul(build.cast(new, old.type.dtype.compute), momentum),
    )


@aten("native_batch_norm_backward")
def batch_norm_backward(
    call: Call,
    grad: Node,
    x: Node,
    weight: Optional,
    running_mean: Optional,
    running_var: Optional,
    save_mean: Optional,
    save_invstd: Optional,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Optional, ...]:
    g, wide = build.compute(grad), build.compute(x)
    axes, spread = _along_channels(x)
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, scale = (build.reshape(build.compute(v), spread) for v in (save_mean, save_invstd))
    else:
        assert running_mean is not None and running_var is not None
        mean, variance = (
            build.reshape(build.compute(v), spread) for v in (running_mean, running_var)
        )
        scale = rsqrt(build.add(variance, float(eps)))
    normal = build.mul(build.sub(wide, mean), scale)
    found: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = (
            g if weight is None else build.mul(g, build.reshape(build.compute(weight), spread))
        )
        found[0] = (
            centred(call, weighed, normal, axes, scale) if train else build.mul(weighed, scale)
        )
    if output_mask[1]:
        found[1] = build.reduce(build.mul(g, normal), "add", axes)
    if output_mask[2]:
        found[2] = build.reduce(g, "add", axes)
    kept: list[Optional] = []
    for node, wanted in zip(found, call.results, strict=True):
        kept.append(None if node is None or wanted is None else build.cast(node, wanted.dtype))
    return tuple(kept)


@aten("_fused_rms_norm")
def rms_norm(
    call: Call, x: Node, normalized_shape: Sequence[Dim], weight: Optional, eps: float | None
) -> tuple[Node, ...]:
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
    return build.cast(y, x.type.dtype), *_as_stated(call, scale)
