"""Normalization by learned statistics, or by those of the tensor itself."""

from __future__ import annotations

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ir.permutations import inverse
from xlac.ops import build


def _affine(call: LayerCall, shape: tuple[int, ...]) -> list[Node]:
    """The scale and the offset, constants where the layer has none."""
    return [
        call.weight(name, shape) if call.flag(asked, True) else build.full(value, shape, call.dtype)
        for name, asked, value in (("gamma", "scale", 1.0), ("beta", "center", 0.0))
    ]


def _channels(call: LayerCall, x: Node, axis: int) -> tuple[int]:
    size = x.shape[axis]
    if not isinstance(size, int):
        call.fail(f"axis {axis} of {x.type} is open")
    return (size,)


@layer("BatchNormalization")
def batch_normalization(call: LayerCall) -> Node:
    """Each channel normalized by the mean and variance that were learned."""
    x = call.floats(call.x)
    axis = call.axis("axis", x.type.rank, -1)
    if call.flag("renorm"):
        call.unsupported("renorm is not supported")
    shape = _channels(call, x, axis)
    learned = _affine(call, shape)
    known = [call.weight(name, shape) for name in ("moving_mean", "moving_variance")]
    return build.apply1(
        "batch_norm",
        x,
        *learned,
        *known,
        epsilon=call.number("epsilon", 1e-3),
        axis=axis,
        momentum=round(1.0 - call.number("momentum", 0.99), 12),
    )


@layer("LayerNormalization")
def layer_normalization(call: LayerCall) -> Node:
    """(x - mean) / standard deviation over the last axes."""
    x = call.floats(call.x)
    rank = x.type.rank
    listed = call.get("axis", -1)
    axes = sorted(a % rank for a in (listed if isinstance(listed, list) else [listed]))
    if axes != list(range(rank - len(axes), rank)):
        call.unsupported(f"axes {listed} are not the last ones")
    if call.flag("rms_scaling"):
        call.unsupported("rms_scaling is not supported", "RMSNormalization is")
    shape = tuple(_channels(call, x, axis)[0] for axis in axes)
    return build.apply1(
        "layer_norm", x, *_affine(call, shape), axis=axes[0], epsilon=call.number("epsilon", 1e-3)
    )


@layer("RMSNormalization")
def rms_normalization(call: LayerCall) -> Node:
    """x / root mean square of the last axis, times a learned scale."""
    x = call.floats(call.x)
    if call.axis("axis", x.type.rank, -1) != x.type.rank - 1:
        call.unsupported("axes other than the last are not supported")
    scale = call.weight("scale", _channels(call, x, x.type.rank - 1))
    return build.apply1("rms_norm", x, scale, epsilon=call.number("epsilon", 1e-6))


@layer("GroupNormalization")
def group_normalization(call: LayerCall) -> Node:
    """(x - mean) / standard deviation over groups of channels."""
    x = call.floats(call.x)
    rank = x.type.rank
    axis = call.axis("axis", rank, -1)
    shape = _channels(call, x, axis)
    groups = call.integer("groups", 32, least=-1)
    order = (0, axis, *(a for a in range(1, rank) if a != axis))
    y = build.apply1(
        "group_norm",
        build.transpose(x, order),
        *_affine(call, shape),
        groups=shape[0] if groups == -1 else groups,
        epsilon=call.number("epsilon", 1e-3),
    )
    return build.transpose(y, inverse(order))


@layer("UnitNormalization")
def unit_normalization(call: LayerCall) -> Node:
    """x scaled to a norm of 1 along axes."""
    x = call.floats(call.x)
    listed = call.get("axis", -1)
    axes = sorted(a % x.type.rank for a in (listed if isinstance(listed, list) else [listed]))
    squares = build.reduce(build.mul(x, x), "add", axes, keepdims=True)
    return build.mul(x, build.apply1("rsqrt", build.maximum(squares, 1e-12)))


@layer("LayerScale")
def layer_scale(call: LayerCall) -> Node:
    """x times a learned scale for each channel: of ConvNeXt in keras.applications."""
    return build.mul(call.x, call.weight("gamma", (call.integer("projection_dim"),)))


@layer("CustomScaleLayer")
def custom_scale(call: LayerCall) -> Node:
    """The first plus the second times a scale: of InceptionResNetV2 in keras.applications."""
    if len(call.inputs) != 2:
        call.fail(f"it takes two tensors, and is called with {len(call.inputs)}")
    return build.add(call.inputs[0], build.mul(call.inputs[1], call.number("scale")))
