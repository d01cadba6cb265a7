"""Batch, instance, group, layer, local response and Lp normalization."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.checks import undivided
from xlac_sdk.dtypes import DType


def measured(x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """The mean of x over axes, with keepdims, and the variance."""
    mean = build.apply1("mean", x, axis=tuple(axes), keepdims=True)
    gap = build.sub(x, mean)
    return mean, build.apply1("mean", build.mul(gap, gap), axis=tuple(axes), keepdims=True)


def scaled(x: Node, scale: Node | None, bias: Node | None) -> Node:
    """x * scale + bias, each of them if given; they broadcast, and are cast to x's type."""
    if scale is not None:
        x = build.mul(x, build.cast(scale, x.type.dtype))
    return x if bias is None else build.add(x, build.cast(bias, x.type.dtype))


def by_channel(vector: Node, rank: int) -> Node:
    """A vector with an element for each channel, reshaped to broadcast over (batch, channels,
    …).
    """
    return build.reshape(vector, (*vector.shape, *[1] * (rank - 1 - vector.type.rank)))


def one_type(*nodes: Node) -> bool:
    """Whether all have one element type."""
    return len({node.type.dtype for node in nodes}) == 1


# ---- by batch, instance and group ------------------------------------------------------------


@operator("BatchNormalization", since=1)
def batch_normalization_1(call: OperatorCall) -> Node | tuple[Node, ...]:
    """Operator sets 1 to 9: computes batch statistics if more than one output is named. `spatial:
    0` has separate statistics for each position.
    """
    if sum(call.wants(n) for n in range(5)) == 1:
        return _known_statistics(call)
    y, mean, variance, now, spread = _measured_batch(call)
    return y, mean, variance, now, spread


@operator("BatchNormalization", since=14)
def batch_normalization_14(call: OperatorCall) -> Node | tuple[Node, ...]:
    """Operator sets 14 and 15: computes batch statistics in `training_mode`, and then returns the
    running mean and variance.
    """
    if not call.attr("training_mode", 0):
        return _known_statistics(call)
    return _measured_batch(call)[:3]


def _known_statistics(call: OperatorCall) -> Node:
    x, scale, bias, mean, variance = (call[n] for n in range(5))
    epsilon = call.attr("epsilon", 1e-5)
    if scale.type.rank == 1 and one_type(x, scale, bias, mean, variance):
        return build.apply1("batch_norm", x, scale, bias, mean, variance, epsilon=epsilon)
    wide = build.promoted([x, scale, mean]).compute
    nodes = [by_channel(build.cast(n, wide), x.type.rank) for n in (scale, bias, mean, variance)]
    factor = build.mul(nodes[0], build.apply1("rsqrt", build.add(nodes[3], epsilon)))
    normalized = build.add(build.mul(build.sub(build.cast(x, wide), nodes[2]), factor), nodes[1])
    return build.cast(normalized, x.type.dtype)


def _measured_batch(call: OperatorCall) -> tuple[Node, Node, Node, Node, Node]:
    """y, the running mean and variance, and the mean and variance of this batch."""
    x, scale, bias, mean, variance = (call[n] for n in range(5))
    rank = x.type.rank
    axes = [0, *range(2, rank)] if call.attr("spatial", 1) else [0]
    wide = build.compute(x)
    now, spread = measured(wide, axes)
    normal = build.mul(
        build.sub(wide, now), build.apply1("rsqrt", build.add(spread, call.attr("epsilon", 1e-5)))
    )
    y = scaled(normal, by_channel(scale, rank), by_channel(bias, rank))
    momentum = call.attr("momentum", 0.9)
    vectors = [build.cast(build.reshape(n, mean.shape), mean.type.dtype) for n in (now, spread)]
    running = [
        build.add(build.mul(old, momentum), build.mul(new, 1 - momentum))
        for old, new in zip((mean, variance), vectors, strict=True)
    ]
    return build.cast(y, x.type.dtype), running[0], running[1], vectors[0], vectors[1]


@operator("InstanceNormalization", since=6)
def instance_normalization(call: OperatorCall) -> Node:
    """Operator sets 6 and 22."""
    return build.apply1(
        "instance_norm", call[0], call[1], call[2], epsilon=call.attr("epsilon", 1e-5)
    )


@operator("GroupNormalization", since=18)
def group_normalization_18(call: OperatorCall) -> Node:
    """Operator set 18: a scale and a bias for each group."""
    x, groups = call[0], call.attr("num_groups")
    channels = x.shape[1]
    if not isinstance(channels, int) or channels % groups:
        call.fail(undivided(channels, "channels", f"{groups} groups"))
    each = [build.apply1("repeat", call[n], repeats=channels // groups, axis=0) for n in (1, 2)]
    return build.apply1("group_norm", x, *each, groups=groups, epsilon=call.attr("epsilon", 1e-5))


@operator("GroupNormalization", since=21)
def group_normalization_21(call: OperatorCall) -> Node:
    """Operator set 21: a scale and a bias for each channel."""
    given = {"groups": call.attr("num_groups"), "epsilon": call.attr("epsilon", 1e-5)}
    return build.apply1("group_norm", call[0], call[1], call[2], **given)


# ---- by layer --------------------------------------------------------------------------------


@operator("LayerNormalization")
def layer_normalization(call: OperatorCall) -> tuple[Node, ...]:
    """Operator set 17 and earlier models: y, and the mean and 1 / standard deviation in the type
    `stash_type`, computed in that type or x's if wider.
    """
    x, scale, bias = call[0], call[1], call.get(2)
    axis = normal_axis(call.attr("axis", -1), x.type.rank)
    epsilon, stash = call.attr("epsilon", 1e-5), call.dtype("stash_type", DType.F32)
    exact = all(
        n.shape == x.shape[axis:] and one_type(x, n) for n in (scale, bias) if n is not None
    )
    if exact and not call.wants(1) and not call.wants(2):
        learned = [scale] if bias is None else [scale, bias]
        return (
            build.apply1(
                "layer_norm", x, *learned, axis=axis, epsilon=epsilon, bias=bias is not None
            ),
        )
    wide = build.compute(x)
    mean, variance = measured(wide, range(axis, x.type.rank))
    inverse = build.apply1("rsqrt", build.add(variance, epsilon))
    y = scaled(build.mul(build.sub(wide, mean), inverse), scale, bias)
    return build.cast(y, x.type.dtype), build.cast(mean, stash), build.cast(inverse, stash)


@operator("RMSNormalization", since=23)
def rms_normalization(call: OperatorCall) -> Node:
    """Operator set 23."""
    return rms(call[0], call[1], call.attr("axis", -1), call.attr("epsilon", 1e-5))


def rms(x: Node, scale: Node, axis: int, epsilon: float) -> Node:
    """x over its root mean square over the axes from `axis` on, times a scale that broadcasts."""
    spot = normal_axis(axis, x.type.rank)
    if scale.shape == x.shape[spot:] and one_type(x, scale):
        return build.apply1("rms_norm", x, scale, axis=spot, epsilon=epsilon)
    wide = build.compute(x)
    square = build.apply1(
        "mean", build.mul(wide, wide), axis=tuple(range(spot, x.type.rank)), keepdims=True
    )
    normal = build.mul(wide, build.apply1("rsqrt", build.add(square, epsilon)))
    return build.cast(scaled(normal, scale, None), x.type.dtype)


# ---- other normalizations: local response, mean and variance, Lp --------------------------------


@operator("LRN", since=1)
def local_response(call: OperatorCall) -> Node:
    """Operator sets 1 and 13."""
    given = {
        "size": call.attr("size"),
        "alpha": call.attr("alpha", 1e-4),
        "beta": call.attr("beta", 0.75),
        "bias": call.attr("bias", 1.0),
    }
    return build.apply1("local_response_norm", call[0], **given)


@operator("MeanVarianceNormalization", since=9)
def mean_variance(call: OperatorCall) -> Node:
    """Operator sets 9 and 13: (x - mean) / (standard deviation + 1e-9)."""
    x = call[0]
    wide = build.compute(x)
    mean, variance = measured(wide, build.axes_of(call.attr("axes", [0, 2, 3]), x.type.rank))
    return build.cast(
        build.div(build.sub(wide, mean), build.add(build.sqrt(variance), 1e-9)), x.type.dtype
    )


@operator("LpNormalization", since=1)
def lp_normalization(call: OperatorCall) -> Node:
    """Operator sets 1 and 22: a zero vector stays zero."""
    x, order = call[0], call.attr("p", 2)
    if order not in (1, 2):
        call.fail(f"p is 1 or 2, not {order}")
    wide = build.compute(x)
    length = build.apply1("norm", wide, axis=call.attr("axis", -1), keepdims=True, ord=float(order))
    normalized = build.select(
        build.compare(length, "eq", 0.0), build.like(0.0, wide), build.div(wide, length)
    )
    return build.cast(normalized, x.type.dtype)
