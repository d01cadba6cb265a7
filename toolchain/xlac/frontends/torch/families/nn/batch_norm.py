"""Batch normalization: with running statistics, with batch statistics, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.torch.families.nn.normalization import (
    Optional,
    affine,
    amount,
    as_stated,
    centred,
    composite,
    moments,
    rsqrt,
)
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build


def _along_channels(x: Node) -> tuple[list[int], tuple[Dim, ...]]:
    """All axes except channels, and the shape in which a vector of channels broadcasts."""
    channels = x.shape[1]
    return [a for a in range(x.type.rank) if a != 1], (channels, *[1] * (x.type.rank - 2))


def _normal(
    call: AtenCall,
    x: Node,
    weight: Optional,
    bias: Optional,
    eps: float,
    known: tuple[Node, Node] | None,
) -> tuple[Node, ...]:
    """The result, mean, variance and 1 / deviation; `known` statistics replace those of
    the batch.
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
    call: AtenCall,
    x: Node,
    weight: Optional,
    bias: Optional,
    running_mean: Node,
    running_var: Node,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    """Normalised by the running statistics; the statistics saved for training are empty."""
    known = [running_mean, running_var]
    whole = composite(call, "batch_norm", x, (weight, bias), known, epsilon=float(eps))
    y = whole or _normal(call, x, weight, bias, eps, (running_mean, running_var))[0]
    return y, *(call.filled_as(number, 0) for number in (1, 2))


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_measured(
    call: AtenCall,
    x: Node,
    weight: Optional,
    bias: Optional,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    """Normalised by the batch's statistics, which are returned too; no running statistics."""
    y, mean, _, scale = _normal(call, x, weight, bias, eps, None)
    return y, *as_stated(call, mean, scale)


@aten("_native_batch_norm_legit_functional")
def batch_norm_training(
    call: AtenCall,
    x: Node,
    weight: Optional,
    bias: Optional,
    running_mean: Node,
    running_var: Node,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Node, ...]:
    """Training: the last results are the new running statistics, with the unbiased variance."""
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
    return y, *as_stated(call, mean, scale), *news


def _moved(old: Node, new: Node, momentum: float) -> Node:
    return build.add(
        build.mul(build.compute(old), 1 - momentum),
        build.mul(build.cast(new, old.type.dtype.compute), momentum),
    )


@aten("native_batch_norm_backward")
def batch_norm_backward(
    call: AtenCall,
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
    """Gradients of x, weight and bias, as selected by `output_mask`."""
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
    gradients: list[Optional] = [None, None, None]
    if output_mask[0]:
        weighed = (
            g if weight is None else build.mul(g, build.reshape(build.compute(weight), spread))
        )
        gradients[0] = (
            centred(call, weighed, normal, axes, scale) if train else build.mul(weighed, scale)
        )
    if output_mask[1]:
        gradients[1] = build.reduce(build.mul(g, normal), "add", axes)
    if output_mask[2]:
        gradients[2] = build.reduce(g, "add", axes)
    kept: list[Optional] = []
    for node, wanted in zip(gradients, call.results, strict=True):
        kept.append(None if node is None or wanted is None else build.cast(node, wanted.dtype))
    return tuple(kept)
