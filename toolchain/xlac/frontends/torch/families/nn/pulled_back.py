"""Backward operations of ATen, built as our derivative of the forward operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xlac.autodiff.gradient import linearize
from xlac.frontends.torch.families.nn.resampling import grid_sampler
from xlac.frontends.torch.families.tensor.placing import masked_scatter
from xlac.frontends.torch.families.tensor.views import replication_pad
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.walks import fresh, substituted


def pulled_back(
    call: AtenCall, forward: Callable[..., Node], values: Sequence[Node], grad: Node
) -> list[Node]:
    """The cotangents of `values`, given that of `forward(call, *values)`; computed in f32 for half
    precision.
    """
    wide = [build.compute(value) for value in values]
    # values may be equal, or be computed from each other
    params = fresh([value.type for value in wide], "x")
    grad = build.compute(grad)
    value = forward(replace(call, results=(grad.type,)), *params)
    cotangents = linearize([value], params).transposed([grad])
    nodes = substituted(cotangents, dict(zip(params, wide, strict=True)))
    return [build.cast(n, v.type.dtype) for n, v in zip(nodes, values, strict=True)]


@aten(*(f"replication_pad{rank}d_backward" for rank in (1, 2, 3)))
def replication_pad_backward(call: AtenCall, grad: Node, x: Node, padding: Sequence[int]) -> Node:
    """The gradient of x, whose edges were repeated."""
    return pulled_back(call, lambda c, v: replication_pad(c, v, padding), [x], grad)[0]


@aten("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    call: AtenCall,
    grad: Node,
    x: Node,
    grid: Node,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Node, ...]:
    """The gradients of the sampled tensor and of the positions; always both."""
    how = (interpolation_mode, padding_mode, align_corners)
    return tuple(pulled_back(call, lambda c, v, at: grid_sampler(c, v, at, *how), [x, grid], grad))


@aten("masked_scatter_backward")
def masked_scatter_backward(call: AtenCall, grad: Node, mask: Node, sizes: Sequence[int]) -> Node:
    """The gradient of the source: each element that was taken gets the gradient of its place."""
    zero, source = build.like(0, grad), build.full(0, call.shape, grad.type.dtype)
    return pulled_back(call, lambda c, v: masked_scatter(c, zero, mask, v), [source], grad)[0]
