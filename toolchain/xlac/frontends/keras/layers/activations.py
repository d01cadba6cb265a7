"""Activations by name, and the layers that are activations."""

from __future__ import annotations

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import activation, layer, old_activation
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@activation("linear")
def linear(x: Node) -> Node:
    """x itself."""
    return x


def _named(name: str, *known: str, **attributes: float | str) -> None:
    """Activations that are one of our operations."""

    def build_activation(x: Node) -> Node:
        return build.apply1(name, x, **attributes)

    activation(*known)(build_activation)


for _names, _operation in (
    (("relu",), "relu"),
    (("relu6",), "relu6"),
    (("softplus",), "softplus"),
    (("tanh",), "tanh"),
    (("softsign",), "softsign"),
    (("silu", "swish"), "silu"),
    (("sigmoid",), "sigmoid"),
    (("elu",), "elu"),
    (("selu",), "selu"),
    (("celu",), "celu"),
    (("exponential",), "exp"),
    (("hard_silu", "hard_swish"), "hardswish"),
    (("mish",), "mish"),
    (("gelu",), "gelu"),
    (("hard_sigmoid",), "hardsigmoid"),
):
    _named(_operation, *_names)
_named("leaky_relu", "leaky_relu", alpha=0.2)
_named("softmax", "softmax", axis=-1)
_named("log_softmax", "log_softmax", axis=-1)


@old_activation("hard_sigmoid")
def steep_hard_sigmoid(x: Node) -> Node:
    """0.2 x + 0.5 between 0 and 1; Keras 3 has x / 6 + 0.5."""
    return build.apply1("hardsigmoid", x, alpha=0.2, beta=0.5)


@activation("hard_tanh")
def hard_tanh(x: Node) -> Node:
    """x within -1 and 1."""
    return build.apply1("clip", x, -1.0, 1.0)


@activation("log_sigmoid")
def log_sigmoid(x: Node) -> Node:
    """The logarithm of the sigmoid."""
    return build.apply1("neg", build.apply1("softplus", build.apply1("neg", x)))


@activation("tanh_shrink")
def tanh_shrink(x: Node) -> Node:
    """x less its hyperbolic tangent."""
    return build.sub(x, build.apply1("tanh", x))


@activation("hard_shrink")
def hard_shrink(x: Node) -> Node:
    """x where its magnitude is above 0.5, else 0."""
    return build.select(build.compare(build.apply1("abs", x), "gt", 0.5), x, build.like(0.0, x))


@activation("soft_shrink")
def soft_shrink(x: Node) -> Node:
    """x moved by 0.5 towards 0."""
    return build.sub(
        build.maximum(build.sub(x, 0.5), 0.0),
        build.maximum(build.sub(build.apply1("neg", x), 0.5), 0.0),
    )


@activation("squareplus")
def squareplus(x: Node) -> Node:
    """(x + sqrt(x² + 4)) / 2."""
    return build.mul(build.add(x, build.sqrt(build.add(build.mul(x, x), 4.0))), 0.5)


@activation("sparse_sigmoid")
def sparse_sigmoid(x: Node) -> Node:
    """(x + 1) / 2 within 0 and 1."""
    return build.apply1("clip", build.mul(build.add(x, 1.0), 0.5), 0.0, 1.0)


@activation("sparse_plus")
def sparse_plus(x: Node) -> Node:
    """0 to -1, x from 1 on, (x + 1)² / 4 between."""
    mid = build.mul(build.mul(build.add(x, 1.0), build.add(x, 1.0)), 0.25)
    low = build.select(build.compare(x, "le", -1.0), build.like(0.0, x), mid)
    return build.select(build.compare(x, "ge", 1.0), x, low)


@activation("threshold")
def threshold(x: Node) -> Node:
    """x where it is above 0, else 0."""
    return build.apply1("relu", x)


@layer("Activation")
def activation_layer(call: LayerCall) -> Node:
    """The layer Activation, which names an activation."""
    return call.activated(call.x)


@layer("ReLU")
def relu(call: LayerCall) -> Node:
    """x above `threshold`, at most `max_value`; below the threshold a slope times x."""
    slope, start = call.number("negative_slope", 0.0), call.number("threshold", 0.0)
    x, most = call.x, call.get("max_value")
    if slope == 0 and start == 0:
        if most == 6:
            return build.apply1("relu6", x)
        y = build.apply1("relu", x)
        return y if most is None else build.minimum(y, call.number("max_value"))
    below = build.mul(build.sub(x, start), slope)
    y = build.select(build.compare(x, "gt" if start else "ge", start), x, below)
    return y if most is None else build.minimum(y, call.number("max_value"))


@layer("ThresholdedReLU")
def thresholded_relu(call: LayerCall) -> Node:
    """x above `theta`, else 0: a layer of Keras 2."""
    x, theta = call.floats(call.x), call.number("theta", 1.0)
    return build.mul(x, build.cast(build.compare(x, "gt", build.like(theta, x)), x.type.dtype))


@layer("LeakyReLU")
def leaky_relu(call: LayerCall) -> Node:
    """x where it is positive, else x times a slope (`alpha` in old files)."""
    slope = call.number("negative_slope", call.get("alpha", 0.3))
    return build.apply1("leaky_relu", call.x, alpha=slope)


@layer("ELU")
def elu(call: LayerCall) -> Node:
    """x where it is positive, else alpha (exp(x) - 1)."""
    return build.apply1("elu", call.x, alpha=call.number("alpha", 1.0))


@layer("PReLU")
def prelu(call: LayerCall) -> Node:
    """x where it is positive, else x times a learned slope, one for each along `shared_axes`."""
    x = call.x
    return build.apply1("prelu", x, call.weight("alpha", [None] * (x.type.rank - 1)))


@layer("Softmax")
def softmax(call: LayerCall) -> Node:
    """Softmax along an axis."""
    x, axis = call.x, call.axis("axis", call.x.type.rank, -1)
    if call.mask is None:
        return build.apply1("softmax", x, axis=axis)
    lowest = -3e4 if x.type.dtype is DType.F16 else -1e9  # as Keras
    y = build.apply1("softmax", build.select(call.mask, x, build.like(lowest, x)), axis=axis)
    return build.select(call.mask, y, build.like(0.0, y))
