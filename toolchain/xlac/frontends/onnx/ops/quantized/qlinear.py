"""QLinear operators of com.microsoft (version 1): element-wise and pooling operators on quantized
integers.

Each dequantizes its inputs, computes in floats, and quantizes with one rounding to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.ops.nn.fused import channels_first, channels_last
from xlac.frontends.onnx.ops.nn.pooling import average_pool
from xlac.frontends.onnx.ops.quantized.products import along, optional, product
from xlac.frontends.onnx.ops.quantized.quantization import centred, kind_of, quantized
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def read(call: OperatorCall, first: int) -> Node:
    """The dequantized value of a tensor, its scale and its zero point, which are three consecutive
    inputs.
    """
    whole = centred(call.coded(first), optional(call, first + 2), 0)
    return build.mul(build.cast(whole, DType.F32), build.reshape(call[first + 1], ()))


def written(call: OperatorCall, x: Node, scale: int, like: int = 0) -> Value:
    """Quantizes floats by the inputs `scale` (scale) and `scale` + 1 (zero point); without a zero
    point the type is that of input `like`.
    """
    zero = optional(call, scale + 1)
    kind = kind_of(call.coded(like) if zero is None else zero)
    return quantized(build.div(x, build.reshape(call[scale], ())), zero, kind)


def _binary(name: str, mnemonic: str) -> None:
    @operator(name, domain=MICROSOFT)
    def combined(call: OperatorCall) -> Value:
        """Operands A and B, each with scale and zero point, then those of C."""
        return written(call, build.apply1(mnemonic, read(call, 0), read(call, 3)), 6)


def _unary(name: str, apply: Callable[[OperatorCall, Node], Node]) -> None:
    @operator(name, domain=MICROSOFT)
    def applied(call: OperatorCall) -> Value:
        """X with scale and zero point, then those of Y."""
        return written(call, apply(call, read(call, 0)), 3)


def _softmax(call: OperatorCall, x: Node) -> Node:
    """Softmax over one axis, or before operator set 13 over all from an axis on; the default is the
    last, as in ONNX Runtime.
    """
    axis = call.attr("axis", -1) % max(1, x.type.rank)
    if call.attr("opset") >= 13:
        return build.apply1("softmax", x, axis=axis)
    rows = build.reshape(x, (volume(x.shape[:axis]), volume(x.shape[axis:])))
    return build.reshape(build.apply1("softmax", rows, axis=1), x.shape)


def _reduce_mean(call: OperatorCall, x: Node) -> Node:
    return build.apply1(
        "mean", x, axis=tuple(call.attr("axes")), keepdims=bool(call.attr("keepdims"))
    )


def _average(call: OperatorCall, x: Node) -> Node:
    last = call.attr("channels_last", 0)
    pooled = average_pool(replace(call, inputs=(channels_first(x) if last else x,)))
    return channels_last(pooled) if last else pooled


def _global_average(call: OperatorCall, x: Node) -> Node:
    last = call.attr("channels_last", 0)
    pooled = build.apply1("global_avg_pool", channels_first(x) if last else x)
    return channels_last(pooled) if last else pooled


_binary("QLinearAdd", "add")
_binary("QLinearMul", "mul")
_unary("QLinearSigmoid", lambda call, x: build.apply1("sigmoid", x))
_unary(
    "QLinearLeakyRelu",
    lambda call, x: build.apply1("leaky_relu", x, alpha=call.attr("alpha", 0.01)),
)
_unary("QLinearSoftmax", _softmax)
_unary("QLinearReduceMean", _reduce_mean)
_unary("QLinearAveragePool", _average)
_unary("QLinearGlobalAveragePool", _global_average)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(call: OperatorCall) -> Value:
    """The scale and zero point of the result, then those of each tensor after it."""
    parts = [read(call, n) for n in range(2, len(call), 3)]
    return quantized(
        build.div(build.concat(parts, call.attr("axis")), build.reshape(call[0], ())),
        optional(call, 1),
        kind_of(call.coded(1)),
    )


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(call: OperatorCall) -> Value:
    """The chosen operand, with the scale and zero point of the result."""
    return written(call, build.select(call[0], read(call, 1), read(call, 4)), 7, like=1)


@operator("QGemm", domain=MICROSOFT)
def qgemm(call: OperatorCall) -> Value:
    """alpha op(A) op(B) + C, where C is quantized with the products' scale; the result is float
    where no output scale is given.
    """
    transposed = call.attr("transB", 0)
    a, b = (
        centred(call.coded(0), optional(call, 2), 0),
        centred(call.coded(3), optional(call, 5), 0 if transposed else 1),
    )
    sums = product(
        build.transpose(a) if call.attr("transA", 0) else a, build.transpose(b) if transposed else b
    )
    bias = call.get(6)
    if bias is not None:
        sums = build.add(sums, bias)
    scale = build.mul(
        build.mul(build.reshape(call[1], ()), along(call[4], -1)), call.attr("alpha", 1.0)
    )
    products = build.cast(sums, DType.F32)
    if call.get(7) is None:
        return build.mul(products, scale)
    zero = optional(call, 8)
    factor = build.div(scale, build.reshape(call[7], ()))
    return quantized(
        build.mul(products, factor), zero, kind_of(call.coded(0) if zero is None else zero)
    )
