"""Batch normalisation, by the formulas of the specification."""

from __future__ import annotations

from math import prod

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.ir.graph import Node
from xlac.ops import build


def _axes(site: OperationSite, x: Node) -> tuple[int, tuple[int, ...], float]:
    """The feature axis, the other axes, and epsilon."""
    axis = site.axis("feature_index", x.type.rank)
    epsilon = site.get("epsilon")
    if not isinstance(epsilon, float):
        site.fail("attribute 'epsilon' must be a float")
    return axis, tuple(a for a in range(x.type.rank) if a != axis), epsilon


def _count(x: Node, axes: tuple[int, ...]) -> float:
    return float(prod(n for a in axes if isinstance(n := x.shape[a], int)))


@operation("batch_norm_inference")
def batch_norm_inference(site: OperationSite) -> Built:
    """Normalised by a given mean and variance."""
    site.takes(5)
    x, scale, offset, mean, variance = (site.number(n) for n in range(5))
    axis, _, epsilon = _axes(site, x)
    return _normalized(x, axis, scale, offset, mean, variance, epsilon)


def _normalized(
    x: Node, axis: int, scale: Node, offset: Node, mean: Node, variance: Node, epsilon: float
) -> Node:
    def spread(vector: Node) -> Node:
        return build.spread(vector, x.shape, (axis,))

    deviation = build.sqrt(build.add(spread(variance), epsilon))
    centred = build.sub(x, spread(mean))
    return build.add(build.mul(build.div(centred, deviation), spread(scale)), spread(offset))


def _moments(x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    count = _count(x, axes)
    mean = build.div(build.reduce(x, "add", axes), count)
    centred = build.sub(x, build.back(mean, x.shape, axes))
    return mean, build.div(build.reduce(build.mul(centred, centred), "add", axes), count)


@operation("batch_norm_training")
def batch_norm_training(site: OperationSite) -> Built:
    """Normalised by the batch's mean and variance, which are returned too."""
    site.takes(3)
    x, scale, offset = (site.number(n) for n in range(3))
    axis, axes, epsilon = _axes(site, x)
    mean, variance = _moments(x, axes)
    return [_normalized(x, axis, scale, offset, mean, variance, epsilon), mean, variance]


@operation("batch_norm_grad")
def batch_norm_grad(site: OperationSite) -> Built:
    """Gradients of the operand, scale and offset, as StableHLO defines them."""
    site.takes(5)
    x, scale, mean, variance, grad = (site.number(n) for n in range(5))
    axis, axes, epsilon = _axes(site, x)
    count = _count(x, axes)

    def spread(vector: Node) -> Node:
        return build.spread(vector, x.shape, (axis,))

    deviation = build.sqrt(build.add(variance, epsilon))
    centred = build.sub(x, spread(mean))
    total, product = (
        build.reduce(grad, "add", axes),
        build.reduce(build.mul(grad, centred), "add", axes),
    )
    inner = build.sub(build.mul(grad, count), spread(total))
    inner = build.sub(
        inner, build.mul(centred, spread(build.div(product, build.add(variance, epsilon))))
    )
    x_gradient = build.mul(spread(build.div(build.div(scale, deviation), count)), inner)
    return [x_gradient, build.div(product, deviation), total]
