"""Activations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.inverse_root import normalized
from xlac.frontends.tflite.ops import integer_arithmetic
from xlac.frontends.tflite.quantization import held
from xlac.frontends.tflite.registry import operator
from xlac.frontends.tflite.word_tables import gelu as gelu_of_reals
from xlac.frontends.tflite.word_tables import gelu_by_tanh, softmax_of_words, tabulated
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType


def _activation(name: str, apply: Callable[[Node], Node]) -> None:
    @operator(name)
    def activation(call: TFLiteCall) -> Node:
        return call.give(apply(call.real(0)))


def _clamp(name: str, low: float, high: float) -> None:
    @operator(name)
    def clamp(call: TFLiteCall) -> Node:
        again = call.rescaled(computed=np.float32)
        if again is None:
            return call.give(_between(low, high)(call.real(0)))
        return held(build.cast(again, DType.I32), call.out(), (low, high))


def _between(low: float, high: float) -> Callable[[Node], Node]:
    return lambda x: (
        build.minimum(build.maximum(x, low), high) if high < np.inf else build.maximum(x, low)
    )


@operator("LOGISTIC")
def logistic(call: TFLiteCall) -> Node:
    """1 / (1 + exp(-x))."""
    result = integer_arithmetic.sigmoid_of_words(call, tanh=False)
    return result if result is not None else call.give(build.apply1("sigmoid", call.real(0)))


@operator("TANH")
def tanh(call: TFLiteCall) -> Node:
    """The hyperbolic tangent."""
    result = integer_arithmetic.sigmoid_of_words(call, tanh=True)
    return result if result is not None else call.give(build.apply1("tanh", call.real(0)))


_clamp("RELU", 0.0, np.inf)
_clamp("RELU6", 0.0, 6.0)
_clamp("RELU_N1_TO_1", -1.0, 1.0)
_clamp("RELU_0_TO_1", 0.0, 1.0)
_activation("ELU", lambda x: build.apply1("elu", x))


@operator("HARD_SWISH")
def hard_swish(call: TFLiteCall) -> Node:
    """x clamp(x + 3, 0, 6) / 6."""
    result = integer_arithmetic.hard_swish(call)
    if result is not None:
        return result
    x = call.real(0)
    return call.give(build.mul(x, build.div(_between(0.0, 6.0)(build.add(x, 3.0)), 6.0)))


@operator("LEAKY_RELU", "LeakyReluOptions")
def leaky_relu(call: TFLiteCall) -> Node:
    """x where it is positive, alpha x elsewhere."""
    alpha = call.option("alpha")
    above, below = (call.rescaled(slope, computed=np.float32) for slope in (1.0, alpha))
    if above is None or below is None:
        return call.give(build.apply1("leaky_relu", call.real(0), alpha=alpha))
    quantization = call.info(0).quantization
    zero = 0 if quantization is None else int(quantization.zeros[0])
    return build.select(build.compare(call[0], "ge", zero), above, below)


@operator("PRELU")
def prelu(call: TFLiteCall) -> Node:
    """x where it is positive, elsewhere x times a slope, which broadcasts."""
    result = integer_arithmetic.prelu(call)
    if result is not None:
        return result
    x, slope = call.real(0), call.real(1)
    return call.give(build.select(build.compare(x, "ge", 0.0), x, build.mul(x, slope)))


@operator("GELU", "GeluOptions")
def gelu(call: TFLiteCall) -> Node:
    """The Gaussian error linear unit, by tanh if `approximate`."""
    near = call.option("approximate")
    kind = "tanh" if near else "none"
    result = tabulated(call, gelu_by_tanh if near else gelu_of_reals)
    if result is not None:
        return result
    return call.give(build.apply1("gelu", call.real(0), approximate=kind))


@operator("SOFTMAX", "SoftmaxOptions")
def softmax(call: TFLiteCall) -> Node:
    """Along the last axis, of beta x."""
    x, beta = call.real(0), call.option("beta")
    result = softmax_of_words(call, beta)
    if result is not None:
        return result
    scaled = x if beta == 1.0 else build.mul(x, beta)
    return call.give(build.apply1("softmax", scaled, axis=-1))


@operator("LOG_SOFTMAX")
def log_softmax(call: TFLiteCall) -> Node:
    """The logarithm of the softmax along the last axis."""
    return call.give(build.apply1("log_softmax", call.real(0), axis=-1))


@operator("L2_NORMALIZATION", "L2NormOptions")
def l2_normalization(call: TFLiteCall) -> Node:
    """x over its Euclidean norm along the last axis, which is at least 1e-6."""
    result = normalized(call)
    if result is not None:
        return result
    x = call.real(0)
    norm = build.sqrt(build.reduce(build.mul(x, x), "add", -1, True))
    return call.give(call.activated(build.div(x, build.maximum(norm, 1e-6))))


@operator("LOCAL_RESPONSE_NORMALIZATION", "LocalResponseNormalizationOptions")
def local_response_normalization(call: TFLiteCall) -> Node:
    """x (bias + alpha s)^-beta, where s sums squares over the channels at most `radius` away."""
    x = call.real(0)
    radius = call.option("radius")
    if not 0 <= radius <= 1 << 16:
        call.fail(f"its radius is {radius}")
    squares = build.mul(x, x)
    rank = x.type.rank
    ones = (1,) * rank
    at = (*[0] * (rank - 1), radius)
    op = Window("add", None, (*ones[1:], 2 * radius + 1), ones, at, at, ones, ones)
    around = Node.of(op, squares)
    base = build.add(build.mul(around, call.option("alpha")), call.option("bias"))
    return call.give(build.mul(x, build.apply1("pow", base, -call.option("beta"))))
