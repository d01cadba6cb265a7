"""Activation functions. 16-bit floats are computed in f32 and rounded once."""

from __future__ import annotations

import math

from xlac.frontends.torch.families.math.pointwise import computed, rounded
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType


def _same(name: str, mnemonic: str) -> None:
    @aten(name)
    def builder(call: AtenCall, x: Node) -> Node:
        return build.apply1(mnemonic, x)


for _name, _mnemonic in {
    "silu": "silu",
    "mish": "mish",
    "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid",
}.items():
    _same(_name, _mnemonic)


@aten("relu")
def relu(call: AtenCall, x: Node) -> Node:
    """max(x, 0); NaN is kept."""
    return build.maximum(x, build.constant(0, x.type.dtype))


@aten("gelu")
def gelu(call: AtenCall, x: Node, approximate: str = "none") -> Node:
    """x times the normal CDF, or its approximation by tanh."""
    return build.apply1("gelu", x, approximate=approximate)


@aten("elu")
def elu(
    call: AtenCall, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Node:
    """scale x where x is positive, elsewhere scale alpha (exp(input_scale x) - 1)."""
    (a,) = computed(call, x)
    below = build.mul(
        build.apply1("expm1", build.mul(a, float(input_scale))), float(alpha) * float(scale)
    )
    return rounded(
        call, build.select(build.compare(a, "gt", 0.0), build.mul(a, float(scale)), below)
    )


@aten("leaky_relu")
def leaky_relu(call: AtenCall, x: Node, negative_slope: float = 0.01) -> Node:
    """x where it is positive, elsewhere x times the slope."""
    (a,) = computed(call, x)
    return rounded(
        call, build.select(build.compare(a, "gt", 0.0), a, build.mul(a, float(negative_slope)))
    )


@aten("hardtanh")
def hardtanh(call: AtenCall, x: Node, min_val: Scalar = -1, max_val: Scalar = 1) -> Node:
    """x clamped to [min_val, max_val]."""
    low, high = (call.filled(v) for v in (min_val, max_val))
    return build.minimum(build.maximum(x, low), high)


@aten("softplus")
def softplus(call: AtenCall, x: Node, beta: float = 1, threshold: float = 20) -> Node:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""
    (a,) = computed(call, x)
    steep = build.mul(a, float(beta))
    curved = build.div(build.apply1("log1p", build.exp(steep)), float(beta))
    return rounded(call, build.select(build.compare(steep, "gt", float(threshold)), a, curved))


@aten("_prelu_kernel")
def prelu(call: AtenCall, x: Node, weight: Node) -> Node:
    """x where it is positive, elsewhere x times the weight, which has been broadcast already."""
    a, w = computed(call, x, weight)
    return rounded(call, build.select(build.compare(a, "gt", 0.0), a, build.mul(a, w)))


@aten("gelu_backward")
def gelu_backward(call: AtenCall, grad: Node, x: Node, approximate: str = "none") -> Node:
    """The gradient of gelu at x, for both of its forms."""
    g, a = computed(call, grad, x)
    if approximate == "tanh":
        inner = build.mul(
            build.add(a, build.mul(build.mul(a, build.mul(a, a)), 0.044715)), math.sqrt(2 / math.pi)
        )
        t = build.apply1("tanh", inner)
        slope = build.mul(
            build.add(build.mul(build.mul(a, a), 3 * 0.044715), 1.0), math.sqrt(2 / math.pi)
        )
        bend = build.mul(build.mul(build.mul(a, 0.5), build.sub(1.0, build.mul(t, t))), slope)
        return rounded(call, build.mul(g, build.add(build.mul(build.add(t, 1.0), 0.5), bend)))
    below = build.mul(build.add(build.apply1("erf", build.mul(a, math.sqrt(0.5))), 1.0), 0.5)
    density = build.mul(build.exp(build.mul(build.mul(a, a), -0.5)), 1 / math.sqrt(2 * math.pi))
    return rounded(call, build.mul(g, build.add(below, build.mul(a, density))))


@aten("sigmoid_backward")
def sigmoid_backward(call: AtenCall, grad: Node, y: Node) -> Node:
    """The gradient of sigmoid from its result y: grad (1 - y) y."""
    g, b = computed(call, grad, y)
    return rounded(call, build.mul(build.mul(g, build.sub(1.0, b)), b))


@aten("tanh_backward")
def tanh_backward(call: AtenCall, grad: Node, y: Node) -> Node:
    """The gradient of tanh from its result y: grad (1 - y²)."""
    g, b = computed(call, grad, y)
    return rounded(call, build.mul(g, build.sub(1.0, build.mul(b, b))))


@aten("threshold_backward")
def threshold_backward(call: AtenCall, grad: Node, x: Node, threshold: Scalar) -> Node:
    """The gradient where x is above the threshold, 0 elsewhere: that of relu for 0."""
    g = call.filled(grad)
    return build.select(
        build.compare(call.filled(x), "le", call.filled(threshold)), build.like(0, g), g
    )


@aten("_softmax")
def softmax(call: AtenCall, x: Node, dim: int, half_to_float: bool = False) -> Node:
    """The softmax along an axis, in the dtype of the result."""
    return _along(call, "softmax", x, dim)


@aten("_safe_softmax")
def safe_softmax(call: AtenCall, x: Node, dim: int, dtype: DType | None = None) -> Node:
    """The softmax; rows that are all -inf give 0 and have a gradient of 0."""
    wide = build.cast(x, call.dtype)
    rows = wide if x.shape else build.reshape(wide, (1,))
    axis = normal_axis(dim, rows.type.rank)
    empty = build.compare(build.reduce(rows, "max", (axis,), True), "eq", -math.inf)
    empty = build.broadcast_to(empty, rows.shape)
    probabilities = build.apply1("softmax", build.select(empty, 0.0, rows), axis=axis)
    return build.reshape(build.select(empty, 0.0, probabilities), x.shape)


@aten("_log_softmax")
def log_softmax(call: AtenCall, x: Node, dim: int, half_to_float: bool = False) -> Node:
    """The logarithm of the softmax along an axis, computed as `softmax` is."""
    return _along(call, "log_softmax", x, dim)


def _along(call: AtenCall, mnemonic: str, x: Node, dim: int) -> Node:
    wide = build.cast(x, call.dtype)
    if not wide.shape:
        return build.reshape(build.apply1(mnemonic, build.reshape(wide, (1,)), axis=0), ())
    return build.apply1(mnemonic, wide, axis=dim)


@aten("_softmax_backward_data")
def softmax_backward(call: AtenCall, grad: Node, y: Node, dim: int, input_dtype: DType) -> Node:
    """The gradient of softmax from its result y: grad y - y sum(grad y)."""
    g, b = (build.compute(v) for v in (grad, y))
    total = build.mul(g, b)
    if y.shape:
        total = build.sub(total, build.mul(b, build.reduce(total, "add", dim, True)))
    else:
        total = build.sub(total, build.mul(b, total))
    return build.cast(total, input_dtype)


@aten("_log_softmax_backward_data")
def log_softmax_backward(call: AtenCall, grad: Node, y: Node, dim: int, input_dtype: DType) -> Node:
    """The gradient of log_softmax from its result y: grad - exp(y) sum(grad)."""
    g, b = (build.compute(v) for v in (grad, y))
    total = build.reduce(g, "add", dim, True) if y.shape else g
    return build.cast(build.sub(g, build.mul(build.exp(b), total)), input_dtype)
